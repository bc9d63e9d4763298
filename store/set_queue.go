package store

import (
	"context"
	"time"
)

// OnDead is what happens to a lane whose head is dead.
type OnDead string

// The policies for dead heads.
const (
	OnDeadSkip  OnDead = "skip"  // the lane goes on: the default of a new queue
	OnDeadBlock OnDead = "block" // the lane waits for Replay, Discard or UnblockLane
)

// QueuePolicy is what SetQueue sets. A zero field leaves the queue's value as
// it is.
type QueuePolicy struct {
	OnDead OnDead
	// The delay after the n-th failed attempt of a job is BackoffBase ×
	// BackoffFactor^(n-1), at most BackoffCap, ± 20 %. A new queue has 5 s × 2
	// up to 1 h. Base and cap are 0 to 366 days, the factor is 1 to 1000.
	BackoffBase   *time.Duration
	BackoffFactor float64
	BackoffCap    *time.Duration
	// DeadRetention is how long dead letters are kept that block no lane: 1
	// minute to 100 years. 0, as in a new queue, is until somebody discards them.
	DeadRetention *time.Duration
}

const setQueueSQL = `select @schema@.set_queue(name => $1, on_dead => nullif($2::text, ''), backoff_base => $3,
	backoff_factor => nullif($4::float8, 0), backoff_cap => $5, dead_retention => $6)`

// SetQueue sets policies of a queue, which needs no other set-up: one that was
// never set has the defaults. A change to OnDeadSkip lets its blocked lanes go
// on; left says how many could not yet, since another transaction is at them or
// since this one had enough with 200: call again.
func (s *Store) SetQueue(ctx context.Context, name string, p QueuePolicy) (left int, err error) {
	if err := checkTexts(text{"name", name}, text{"on_dead", string(p.OnDead)}); err != nil {
		return 0, err
	}
	args := []any{name, p.OnDead, p.BackoffBase, p.BackoffFactor, p.BackoffCap, p.DeadRetention}
	return left, s.row(ctx, setQueueSQL, args, []any{&left})
}
