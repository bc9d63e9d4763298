package listener

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstBackoff = 100 * time.Millisecond
	jitter       = 0.5
	// forgiven is how many losses of a verified connection within HealthyAfter
	// are followed by an attempt at once.
	forgiven = 10
)

// pace decides how long to wait before the next attempt; the package comment
// has the rule. It belongs to one goroutine.
type pace struct {
	backoff *backoff.ExponentialBackOff
	healthy time.Duration
	now     func() time.Time

	losses [forgiven]time.Time // a ring: when the last forgiven losses were
	next   int
	delay  time.Duration
}

func newPace(longest, healthy time.Duration) *pace {
	b := backoff.NewExponentialBackOff()
	b.Multiplier = 2
	b.RandomizationFactor = jitter
	// The library adds its jitter on top of MaxInterval. Leave room for it, so
	// that the longest waits are spread below the limit, not cut off at it.
	b.MaxInterval = time.Duration(float64(longest) / (1 + jitter))
	b.InitialInterval = min(firstBackoff, b.MaxInterval)
	b.MaxElapsedTime = 0 // otherwise it stops for good after 15 minutes
	b.Reset()
	return &pace{backoff: b, healthy: healthy, now: time.Now}
}

// failed notes an attempt that did not become a verified connection.
func (p *pace) failed() {
	p.delay = p.backoff.NextBackOff()
}

// lost notes the end of a connection that had been verified for so long.
func (p *pace) lost(verified time.Duration) {
	if verified >= p.healthy {
		p.backoff.Reset()
	}
	oldest, now := p.losses[p.next], p.now()
	if !oldest.IsZero() && now.Sub(oldest) < p.healthy {
		p.failed()
		return
	}
	p.losses[p.next] = now
	p.next = (p.next + 1) % forgiven
	p.delay = 0
}

// wait blocks until the next attempt may begin, or ctx ends.
func (p *pace) wait(ctx context.Context) error {
	return sleep(ctx, p.delay)
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
