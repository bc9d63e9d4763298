package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// Job is what a handler gets: the facts of the job as it was claimed, and its
// payload decoded. The payload as it is stored remains at Job.Job.Payload.
type Job[T any] struct {
	store.Job
	Payload T

	attempt *attempt
}

// SetResult stores v, encoded as JSON, with the job if this attempt completes
// it; the last call counts. Beyond 64 KiB, or if PostgreSQL can't hold it, a
// note takes its place: the job completes nevertheless. The error is
// encoding/json's.
func (j Job[T]) SetResult(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	j.attempt.setResult(data)
	return nil
}

type attemptKey struct{}

// attemptOf finds the attempt that a handler's context belongs to.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// ClaimOf tells which claim a handler's context belongs to. Its fence is the
// token to hand to systems outside: they refuse a smaller one than they have
// seen for this ordering key. False outside a handler.
func ClaimOf(ctx context.Context) (store.Claim, bool) {
	a := attemptOf(ctx)
	if a == nil {
		return store.Claim{}, false
	}
	return a.claim(), true
}

// LeaseEnd tells until when the attempt's lease holds as of now, by the
// local monotonic clock: heartbeats move it on, which ctx.Deadline (the
// handler's timeout) does not show. While a transactional handler runs, its
// lock holds the lane whatever the lease says. False outside a handler.
func LeaseEnd(ctx context.Context) (time.Time, bool) {
	a := attemptOf(ctx)
	if a == nil {
		return time.Time{}, false
	}
	return a.shift.leases.end(a), true
}
