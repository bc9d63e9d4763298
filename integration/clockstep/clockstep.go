package clockstep

import (
	"errors"
	"sync"
	"time"
)

// ErrUnsupported is returned, wrapped with the reason, where the clock of a
// single process can't be stepped.
var ErrUnsupported = errors.New("the clock of one process can't be stepped here")

var clock struct {
	mu   sync.Mutex
	wall offset // nil until the first step
	sum  time.Duration
}

// offset is where the redirected clock finds what it has to add, in seconds.
type offset func(seconds int64)

// Step moves this process's wall clock by d, which is negative for back and is
// cut to whole seconds, on top of earlier steps.
func Step(d time.Duration) error {
	clock.mu.Lock()
	defer clock.mu.Unlock()
	if clock.wall == nil {
		wall, err := redirect()
		if err != nil {
			return err
		}
		clock.wall = wall
	}
	clock.sum += d.Truncate(time.Second)
	clock.wall(int64(clock.sum / time.Second))
	return nil
}
