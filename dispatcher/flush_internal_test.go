package dispatcher

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestSuccessEndsFinishersBackoff: once a flush has succeeded, nothing waits for
// the pause that another one, which failed beside it, has begun.
func TestSuccessEndsFinishersBackoff(t *testing.T) {
	t.Parallel()
	s := stub(t, t.Context(), Config{}, func() {})
	f := s.finisher
	a := s.newAttempt(s.queues[0], store.Job{ID: 1, Kind: "k"}, time.Now())
	defer a.close()
	f.waiting = []*report{{attempt: a}}
	for range 20 {
		f.failed(nil, errors.New("connection reset"))
	}
	f.succeeded(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.timer.Stop()
	if b := f.next(time.Now()); len(b.reports) != 1 {
		t.Errorf("%d reports go, want 1; the others wait for %v", len(b.reports), time.Until(f.retryAt))
	}
}
