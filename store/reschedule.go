package store

import (
	"context"
	"time"
)

// Reschedule gives a job that nobody runs another due time; one that is past is
// now. It answers what the job is then:
//
//   - StateScheduled: a scheduled job, or a ready one that was never tried and
//     has no ordering key or is alone in its lane, which it then joins anew.
//   - StateRetrying: a retrying or snoozed job, or one that was and is ready
//     again. It holds its lane until then.
//   - StateReady: the time is past, and it was ready.
//
// The order of a lane does not change: ErrState for a job that waits in its
// lane, and for a head, never tried, with others behind it; also for one that
// runs or has ended. ErrNotFound for an id that never was, a *FieldError for
// a bad time, ErrBusy. In a transaction: a job that leaves its lane keeps
// the lane's producers waiting until the commit.
func (s *Store) Reschedule(ctx context.Context, id int64, runAt time.Time) (State, error) {
	var w wireJob
	if err := (NewJob{RunAt: runAt}).when(&w); err != nil {
		return "", err
	}
	state, err := s.answer(ctx, `select @schema@.reschedule(id => $1, run_at => $2)`, id, w.RunAt)
	return State(state), err
}

// RescheduleIn is Reschedule for a delay from now by the database's clock, 0 to
// 1000 years.
func (s *Store) RescheduleIn(ctx context.Context, id int64, delay time.Duration) (State, error) {
	state, err := s.answer(ctx, `select @schema@.reschedule(id => $1, delay => $2)`, id, delay)
	return State(state), err
}
