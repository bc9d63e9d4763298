package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestDeregistersLast: what might register again has ended before.
func TestDeregistersLast(t *testing.T) {
	t.Parallel()
	var ended, tried atomic.Bool
	s := stub(t, t.Context(), Config{}, func() {
		tried.Store(true)
		if !ended.Load() {
			t.Error("it deregisters while the heart may beat")
		}
	})
	s.keepers.Go(func() { <-s.keeping.Done(); ended.Store(true) })
	s.windDown()
	if !tried.Load() {
		t.Error("it does not deregister")
	}
}

// TestDrainLetsLanesGoOn: a lane that was refused a moment ago is tried again.
func TestDrainLetsLanesGoOn(t *testing.T) {
	t.Parallel()
	var tried atomic.Bool
	s := stub(t, t.Context(), Config{}, func() { tried.Store(true) })
	a := s.newAttempt(s.queues[0], store.Job{Kind: "k", OrderingKey: "a"}, time.Now())
	s.finisher.waiting = []*report{{attempt: a, recorded: true, at: time.Now().Add(20 * time.Millisecond)}}
	s.finisher.drain(t.Context())
	if !tried.Load() {
		t.Error("it is left to others at once")
	}
}
