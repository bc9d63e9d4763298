package dispatcher

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newBackoff paces retries against a database that does not answer, for ever:
// first, doubling, never above most, all give or take a half.
func newBackoff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.Multiplier = 2
	b.RandomizationFactor = 0.5
	b.InitialInterval = first
	b.MaxInterval = max(first, most*2/3) // the jitter comes on top of it
	b.MaxElapsedTime = 0                 // otherwise it stops for good after 15 minutes
	b.Reset()
	return b
}

// doubling paces looks at what is only busy for a moment.
type doubling struct{ first, most, last time.Duration }

func (d *doubling) next() time.Duration {
	d.last = min(max(d.first, 2*d.last), d.most)
	return d.last
}

func (d *doubling) reset() { d.last = 0 }

// jittered is d, give or take a tenth: so that many do not act as one.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// sleep waits for d; it returns early, with the context's error, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
