package store

import "context"

// RetryState is what RetryNow came to.
type RetryState string

// What RetryNow may answer.
const (
	RetryReady RetryState = "ready" // it may run
	RetryDue   RetryState = "due"   // scheduled, with an ordering key: it joins its lane in a moment, at the end
)

// RetryNow lets a job that is retrying, snoozed or scheduled run at once.
// ErrNotFound for an id that never was, ErrState for a job in another state,
// ErrBusy.
func (s *Store) RetryNow(ctx context.Context, id int64) (RetryState, error) {
	state, err := s.answer(ctx, `select @schema@.retry_now(id => $1)`, id)
	return RetryState(state), err
}
