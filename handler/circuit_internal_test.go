package handler

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCircuit opens after five faults in ten seconds, probes after 1, 2, 4 … 30 s,
// and closes when an app answers.
func TestCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit()
		defer c.close()
		opened, restored := 0, 0
		c.guard(func() { opened++ }, func() { restored++ })
		var waits []time.Duration
		for range 4 {
			waits = append(waits, c.fault(c.mayPush(t)))
			time.Sleep(3 * time.Second) // the first leaves the window before the fifth comes
		}
		c.fault(c.mayPush(t))
		if c.current() != Closed || opened > 0 || waits[0] != time.Second || waits[3] != 8*time.Second {
			t.Fatalf("%s after spread faults, waits %v", c.current(), waits)
		}
		c.fault(c.mayPush(t))
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			if c.current() != Open || opened != i+1 || restored != i {
				t.Fatalf("wait %d: %s, opened %d times, restored %d", i, c.current(), opened, restored)
			}
			var open *openError
			if _, err := c.enter(t.Context()); !errors.As(err, &open) || open.until < want*time.Second {
				t.Errorf("wait %d: %v, want to be sent away for %v", i, err, want*time.Second)
			}
			time.Sleep(want*time.Second - 1)
			if c.current() != Open {
				t.Errorf("wait %d was shorter than %v", i, want*time.Second)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if again := c.fault(c.mayProbe(t)); again < want*time.Second {
				t.Errorf("after probe %d a job comes back in %v", i, again)
			}
		}
		time.Sleep(31 * time.Second)
		c.answered(c.mayProbe(t))
		if c.current() != Closed || c.wait != firstProbe {
			t.Errorf("%s after a good probe, next wait %v", c.current(), c.wait)
		}
	})
}

// TestOthersWaitForTheProbe, and share its luck.
func TestOthersWaitForTheProbe(t *testing.T) {
	t.Parallel()
	for _, good := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCircuit()
			defer c.close()
			for range tripFaults {
				c.fault(false)
			}
			time.Sleep(firstProbe + 1)
			c.mayProbe(t)
			var others sync.WaitGroup
			let := make(chan error, 5)
			for range 5 {
				others.Go(func() {
					probe, err := c.enter(t.Context())
					if probe {
						t.Error("a second probe")
					}
					let <- err
				})
			}
			synctest.Wait()
			if len(let) > 0 {
				t.Error("somebody did not wait for the probe")
			}
			if good {
				c.answered(true)
			} else {
				c.fault(true)
			}
			others.Wait()
			for range 5 {
				if err := <-let; (err == nil) != good {
					t.Errorf("good %t: %v", good, err)
				}
			}
		})
	}
}

// TestAbandonedProbe: the next one probes.
func TestAbandonedProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit()
		defer c.close()
		for range tripFaults {
			c.fault(false)
		}
		time.Sleep(firstProbe + 1)
		c.abandon(c.mayProbe(t))
		c.answered(c.mayProbe(t))
		c.abandon(true) // as every push does at its end
		if c.current() != Closed {
			t.Error(c.current())
		}
	})
}

func (c *circuit) mayPush(t *testing.T) bool {
	t.Helper()
	probe, err := c.enter(t.Context())
	if err != nil || probe {
		t.Fatalf("probe %t, %v", probe, err)
	}
	return probe
}

func (c *circuit) mayProbe(t *testing.T) bool {
	t.Helper()
	probe, err := c.enter(t.Context())
	if err != nil || !probe {
		t.Fatalf("probe %t, %v", probe, err)
	}
	return probe
}
