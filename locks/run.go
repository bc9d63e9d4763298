package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// TryRun tries to take the run lock of the lane (queue, tenant, orderingKey)
// for tx, and reports whether tx holds it now. A job without an ordering key
// ("") has a run lock of its own, by its id; with a key, id does not matter.
//
// Holding it, look at the job again in a new statement: it may have been taken
// away before. An error ends tx, as any error in a transaction does.
func (l *Locks) TryRun(ctx context.Context, tx pgx.Tx, queue, tenant, orderingKey string, id int64) (bool, error) {
	var held bool
	if err := tx.QueryRow(ctx, l.tryRun, queue, tenant, orderingKey, id).Scan(&held); err != nil {
		return false, fmt.Errorf("try run lock: %w", err)
	}
	l.run.count(held)
	return held, nil
}

// WaitRun is TryRun, repeated after 1 ms, 2 ms and so on, at most every 50 ms,
// until tx holds the lock, until has passed, or ctx ends: its cause is the error. It
// tries at least once, and a last time when until comes. Compute until from
// time.Now, so that it does not move with the wall clock.
func (l *Locks) WaitRun(ctx context.Context, tx pgx.Tx, queue, tenant, orderingKey string, id int64, until time.Time) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		last := time.Until(until)
		held, err := l.TryRun(ctx, tx, queue, tenant, orderingKey, id)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, fmt.Errorf("wait for run lock: %w", context.Cause(ctx))
		case held || err != nil || last <= 0:
			return held, err
		}
		if err := wait(ctx, min(pause, last)); err != nil {
			return false, fmt.Errorf("wait for run lock: %w", err)
		}
	}
}

// wait returns nil after d, or the cause when ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
