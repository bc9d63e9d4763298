package listener

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// C73: the gap between attempts grows to the limit, stays near it, is never
// above it, and never stops coming, however long the server is away.
func TestC73FailuresWaitUpToTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 15 * time.Second
		p := newPace(limit, time.Minute)
		began, last := time.Now(), time.Now()
		for attempt := 0; time.Since(began) < 20*time.Minute; attempt++ {
			p.failed()
			if err := p.wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			gap := time.Since(last)
			last = time.Now()
			least := limit / 3 // 10 s less half of it
			if attempt < 8 {
				least = min(least, firstBackoff<<attempt/2)
			}
			if gap < least || gap > limit {
				t.Errorf("gap %d is %v, want between %v and %v", attempt, gap, least, limit)
			}
		}
	})
}

func TestLossOfAVerifiedConnectionIsForgiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(15*time.Second, time.Minute)
		for range forgiven {
			time.Sleep(time.Second)
			if p.lost(time.Second); p.delay != 0 {
				t.Fatalf("a forgiven loss waits %v", p.delay)
			}
		}
		if p.lost(time.Second); p.delay == 0 {
			t.Error("one loss too many does not wait")
		}
		time.Sleep(time.Minute - (forgiven-1)*time.Second)
		if p.lost(time.Second); p.delay != 0 {
			t.Errorf("a minute after the first loss, the next waits %v", p.delay)
		}
	})
}

func TestOnlyAHealthyMinuteResetsTheBackoff(t *testing.T) {
	t.Parallel()
	p := newPace(15*time.Second, time.Minute)
	for range 20 {
		p.failed()
	}
	p.lost(59 * time.Second)
	if p.failed(); p.delay < 5*time.Second {
		t.Errorf("after 59 s of health the next failure waits %v", p.delay)
	}
	p.lost(time.Minute)
	if p.failed(); p.delay > 2*firstBackoff {
		t.Errorf("after a healthy minute the first failure waits %v", p.delay)
	}
}

func TestTinyLimit(t *testing.T) {
	t.Parallel()
	p := newPace(time.Millisecond, time.Minute)
	for range 100 {
		if p.failed(); p.delay <= 0 || p.delay > time.Millisecond {
			t.Fatalf("waits %v", p.delay)
		}
	}
}

// While others are heard there is no need to ask.
func TestEverySoundPutsTheProbeOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		s := &session{l: &Listener{cfg: Config{ProbeInterval: interval}}}
		s.heard(Signal{Class: Runnable})
		go func() {
			for range 20 {
				time.Sleep(5 * time.Second)
				s.heard(Signal{Class: Probe, Nonce: "another's"})
			}
		}()
		began := time.Now()
		if !s.awaitSilence(t.Context()) {
			t.Fatal("ended without silence")
		}
		silence := time.Since(began) - 100*time.Second
		if silence < interval*3/4 || silence > interval {
			t.Errorf("waited for a silence of %v", silence)
		}
	})
}
