package dispatcher

import (
	"context"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// TestNoClaimOnceStopped: a look whose turn comes after the end claims nothing,
// and leaves the budget as it is.
func TestNoClaimOnceStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	s := stub(t, ctx, Config{MaxJobs: 3}, func() { t.Error("it claims") })
	stop()
	newLookout(s.queues[0]).look(ctx, ByCatchUp)
	if left := s.budget.take(9); left != 3 {
		t.Errorf("%d jobs may be claimed yet, want 3", left)
	}
}

// TestSignalAfterTheLook: a job that a poll finds before its signal has arrived has
// not lost that; one whose signal does not come soon has.
func TestSignalAfterTheLook(t *testing.T) {
	t.Parallel()
	s := stub(t, t.Context(), Config{}, func() {})
	l := newLookout(s.queues[0])
	for _, test := range []struct {
		signal bool
		want   uint64
	}{{true, 0}, {false, 1}} {
		l.count(ByPoll, store.Claimed{Jobs: make([]store.Job, 1)}, 0)
		if test.signal {
			l.bell.ring(BySignal)
		}
		l.wait(t.Context(), false)
		if lost := l.stats().LostSignals; lost != test.want || l.unheard != 0 {
			t.Errorf("signal %t: %d lost signals are counted, want %d; %d are awaited", test.signal, lost, test.want, l.unheard)
		}
	}
}
