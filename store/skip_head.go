package store

import "context"

// SkipHead makes the head of a lane, if nobody runs it, a dead letter, and lets
// the lane go on whatever its queue's policy is. True if it went on at once,
// false if it will in a moment, since another transaction is at the lane.
// ErrNotFound for a lane without a head; ErrState for a head that runs (Cancel
// it); ErrBusy.
func (s *Store) SkipHead(ctx context.Context, lane Lane) (bool, error) {
	if err := lane.check(); err != nil {
		return false, err
	}
	answer, err := s.answer(ctx, `select @schema@.skip_head(queue => $1, tenant => $2, ordering_key => $3)`, lane.args()...)
	return answer == "skipped", err
}
