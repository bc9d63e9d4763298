package dispatcher

import (
	"testing"
	"time"
)

// TestBackoff grows, jitters, and stays within its bounds for ever (C73).
func TestBackoff(t *testing.T) {
	t.Parallel()
	const first, most = 20 * time.Millisecond, 10 * time.Second
	b := newBackoff(first, most)
	for i := range 10_000 {
		d := b.NextBackOff()
		if d < first/2 || d > most {
			t.Fatalf("wait %d is %v", i, d)
		}
		if i > 20 && d < most/4 {
			t.Fatalf("wait %d is %v, far below the cap", i, d)
		}
	}
	b.Reset()
	if d := b.NextBackOff(); d > 2*first {
		t.Errorf("after a reset %v", d)
	}
}

func TestDoubling(t *testing.T) {
	t.Parallel()
	d := doubling{first: time.Millisecond, most: 5 * time.Millisecond}
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		if got := d.next(); got != want*time.Millisecond {
			t.Errorf("%v, want %v", got, want*time.Millisecond)
		}
	}
	d.reset()
	if got := d.next(); got != time.Millisecond {
		t.Errorf("after a reset %v", got)
	}
}

// TestBell: rings coalesce, the best reason is given, and none is lost.
func TestBell(t *testing.T) {
	t.Parallel()
	b := newBell()
	b.ring(ByPoll)
	b.ring(ByTimer)
	b.nudge()
	<-b.c
	if why, ok := b.answer().best(); !ok || why != ByTimer {
		t.Errorf("answered for %v, %t", why, ok)
	}
	select {
	case <-b.c:
		t.Error("three rings, two looks")
	default:
	}
	b.nudge()
	<-b.c
	if why, ok := b.answer().best(); ok {
		t.Errorf("a nudge gave a reason: %v", why)
	}
}

// TestClock: the database's clock may be anywhere; only distances count (C65).
func TestClock(t *testing.T) {
	t.Parallel()
	var c clock
	if d := time.Until(c.localTime(time.Now().Add(time.Hour))); d > 0 {
		t.Errorf("without a clock, look now and not in %v", d)
	}
	db, local := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()
	c.set(db, local)
	if got := c.localTime(db.Add(time.Second)).Sub(local); got != time.Second {
		t.Errorf("a second of the database is %v here", got)
	}
}
