package dispatcher

import (
	"sync/atomic"
	"testing"
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
