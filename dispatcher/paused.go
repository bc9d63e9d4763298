package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// A claim takes nothing that is paused, as it sees the pauses. A handler begins
// within a second of that, or the pauses are looked at again: for a claim whose
// answer came late, a process that stood still, a transaction that waited for
// its connection or its run lock, or is repeated. So no handler begins later than
// a second after a pause, and where all is in time, the look costs nothing.
const (
	// looksFor is how long a look at the pauses counts: half of what is
	// promised, as a handler's goroutine may come late on a busy machine.
	looksFor = 500 * time.Millisecond
	// maxLooks is how often to look again for an answer in time. After that the
	// last one counts: a database that is always that slow must not stop the work.
	maxLooks = 5
)

var errPaused = errors.New("paused before its handler began")

// unpaused lets an attempt go on (nil) unless its job is paused by now: then it
// is to be given back, and no attempt is used up.
func (a *attempt) unpaused() *outcome {
	retry := newBackoff(20*time.Millisecond, 2*time.Second)
	for {
		o, err := a.lookAtPauses(func(ctx context.Context) (paused []int64, err error) {
			err = a.shift.control(LoopClaim, func(ctx context.Context, db *store.Store) (err error) {
				paused, err = db.Paused(ctx, a.job.ID)
				return err
			})
			return paused, err
		})
		if err == nil || a.ctx.Err() != nil || !unavailable(err) {
			return o
		}
		a.shift.trouble(a.ctx, "look at pauses", err)
		_ = sleep(a.ctx, retry.NextBackOff())
	}
}

// unpausedIn is unpaused for a transactional attempt, in its transaction.
func (a *attempt) unpausedIn(tx store.DB) *outcome {
	o, _ := a.lookAtPauses(func(ctx context.Context) ([]int64, error) {
		return a.shift.store(tx).Paused(ctx, a.job.ID)
	})
	return o
}

// lookAtPauses looks until the last look counts.
func (a *attempt) lookAtPauses(look func(context.Context) ([]int64, error)) (*outcome, error) {
	for looks := 0; time.Since(a.looked) > looksFor && looks < maxLooks; looks++ {
		sent := time.Now()
		ctx, cancel := context.WithTimeoutCause(a.ctx, a.shift.callTimeout, errNoAnswer)
		paused, err := look(ctx)
		cancel()
		switch {
		case err != nil:
			return &outcome{Outcome: store.Released, reason: "pauses not known", err: errors.Join(causeOf(a.ctx), err)}, err
		case slices.Contains(paused, a.job.ID):
			return &outcome{Outcome: store.Released, reason: "paused", err: errPaused}, nil
		}
		a.looked = sent
	}
	return nil, nil
}
