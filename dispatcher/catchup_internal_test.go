package dispatcher

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestCatchUpEndsBackoff: what waits for a database that failed tries again as
// soon as it is back, however often it has failed.
func TestCatchUpEndsBackoff(t *testing.T) {
	t.Parallel()
	loops := map[string]func(*shift, context.Context){
		"due":   func(s *shift, ctx context.Context) { s.due.run(ctx) },
		"sweep": func(s *shift, ctx context.Context) { s.sweeper.run(ctx) },
	}
	for name, run := range loops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			tries := make(chan struct{}, 100)
			s := stub(t, ctx, Config{Poll: time.Hour}, func() { tries <- struct{}{} })
			var loop sync.WaitGroup
			loop.Go(func() { run(s, ctx) })
			defer loop.Wait()
			defer stop()
			timeout := time.After(30 * time.Second) // less than what 50 backoffs take
			for n := range 50 {
				select {
				case <-tries:
					s.catchUp()
				case <-timeout:
					t.Fatalf("%d of 50 tries", n)
				}
			}
		})
	}
}
