package prompt

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/puppet"
)

// yardstick measures how late the machine itself is: the time from a tick to
// the answer to an empty query, all through the test.
type yardstick struct {
	stop context.CancelFunc
	work sync.WaitGroup
	late []time.Duration
	err  error
}

func layYardstick(t *testing.T, s *puppet.Scene) *yardstick {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	y := &yardstick{stop: stop}
	conn := s.Conn(t)
	y.work.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case ticked := <-tick.C:
				if y.err = conn.Ping(context.WithoutCancel(ctx)); y.err != nil {
					return
				}
				y.late = append(y.late, time.Since(ticked))
			}
		}
	})
	t.Cleanup(y.end)
	return y
}

func (y *yardstick) end() {
	y.stop()
	y.work.Wait()
}

// read ends the measuring.
func (y *yardstick) read(t *testing.T) phase {
	t.Helper()
	y.end()
	if y.err != nil {
		t.Fatal(y.err)
	}
	slices.Sort(y.late)
	return phase{name: "the machine itself", late: y.late}
}
