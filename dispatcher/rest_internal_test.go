package dispatcher

import (
	"testing"
	"time"
)

// TestRest: a look that is passed by is no reason for the next at once.
func TestRest(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{cfg: Config{Poll: time.Hour}}
	past := time.Now().Add(-time.Minute)
	l := &lookout{queue: &queue{shift: &shift{Dispatcher: d, change: make(chan struct{}, 1)}}, pollAt: past, moreAt: past, againAt: past}
	for _, bounded := range []bool{true, false} {
		l.rest(5, bounded)
		if next := time.Until(l.next(false)); next < 50*time.Minute {
			t.Errorf("the next look is in %v", next)
		}
		if nothing := l.emptyAt.Load() == 5; nothing == bounded {
			t.Errorf("bounded %t, seen as empty %t", bounded, nothing)
		}
	}
}
