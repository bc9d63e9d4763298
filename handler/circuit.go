package handler

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// CircuitState says whether a target is pushed to.
type CircuitState string

// The states of a circuit.
const (
	Closed   CircuitState = "closed"    // pushes go through
	Open     CircuitState = "open"      // none does, until the next probe is due
	HalfOpen CircuitState = "half-open" // one does, and decides
)

const (
	tripFaults = 5 // within tripWindow open a circuit
	tripWindow = 10 * time.Second

	firstProbe = time.Second
	lastProbe  = 30 * time.Second // each wait is twice the one before, up to this
)

// circuit keeps pushes from a target that is not there. Only faults of the
// target count: an app that answers with errors is there.
type circuit struct {
	now func() time.Time

	mu      sync.Mutex
	state   CircuitState
	faults  []time.Time   // the last ones, while closed
	wait    time.Duration // before the next probe, or before a job comes back
	probeAt time.Time     // while open
	timer   *time.Timer
	probing bool          // half-open, and the probe is under way
	decided chan struct{} // closed when it is
	opened  []func()
	restore []func()
}

func newCircuit() *circuit {
	return &circuit{now: time.Now, state: Closed, wait: firstProbe}
}

// guard has two functions called, one when the circuit opens, one when pushes
// are let through again. They must not call back.
func (c *circuit) guard(opened, restored func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.restore = append(c.opened, opened), append(c.restore, restored)
}

// openError is a push that was not tried.
type openError struct{ until time.Duration }

func (e *openError) Error() string {
	return fmt.Sprintf("not pushed: the target failed before, and is tried again in %v", e.until.Round(time.Millisecond))
}

// enter waits for leave to push. A probe has it at once, and others only when
// the probe went well.
func (c *circuit) enter(ctx context.Context) (probe bool, err error) {
	for {
		c.mu.Lock()
		state, decided := c.state, c.decided
		if state == Open {
			err = &openError{max(c.probeAt.Sub(c.now()), 0) + firstProbe/10}
		}
		if state == HalfOpen && !c.probing {
			c.probing, c.decided, probe = true, make(chan struct{}), true
		}
		c.mu.Unlock()
		if state != HalfOpen || probe {
			return probe, err
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// fault notes that a push found no target, and tells when the job may try
// again.
func (c *circuit) fault(probe bool) (again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case probe:
		c.open()
	case c.state == Closed:
		c.count()
	}
	if c.state == Open {
		return max(c.probeAt.Sub(c.now()), 0) + firstProbe/10
	}
	again = c.wait
	c.wait = min(2*c.wait, lastProbe)
	return again
}

// count opens the circuit if there were too many faults lately.
func (c *circuit) count() {
	now := c.now()
	c.faults = append(c.faults, now)
	for now.Sub(c.faults[0]) > tripWindow {
		c.faults = c.faults[1:]
	}
	if len(c.faults) >= tripFaults {
		c.wait = firstProbe
		c.open()
	}
}

// open begins a wait for the next probe. The caller holds the lock.
func (c *circuit) open() {
	c.state, c.faults, c.probeAt = Open, nil, c.now().Add(c.wait)
	c.decide()
	for _, f := range c.opened {
		f()
	}
	c.timer = time.AfterFunc(c.wait, c.halfOpen)
	c.wait = min(2*c.wait, lastProbe)
}

func (c *circuit) halfOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != Open {
		return
	}
	c.state = HalfOpen
	for _, f := range c.restore {
		f()
	}
}

// answered notes that the target is there.
func (c *circuit) answered(probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe || c.state == Closed {
		c.state, c.faults, c.wait = Closed, nil, firstProbe
		c.decide()
	}
}

// abandon gives a probe back that came to no end.
func (c *circuit) abandon(probe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe {
		c.decide()
	}
}

// decide ends the probe that others may wait for. The caller holds the lock.
func (c *circuit) decide() {
	c.probing = false
	if c.decided != nil {
		close(c.decided)
		c.decided = nil
	}
}

// close stops the clock.
func (c *circuit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *circuit) current() CircuitState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
