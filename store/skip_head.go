package store

import "context"

// SkipHead makes the head of a lane, if nobody runs it, a dead letter, and lets
// the lane go on whatever its queue's policy is. True if it went on at once,
// false if it will in a moment, since another transaction is at the lane.
// ErrNotFound for a lane without a head; ErrState for a head that runs (Cancel
// it), or whose row is locked.
func (s *Store) SkipHead(ctx context.Context, lane Lane) (bool, error) {
	var now bool
	return now, s.row(ctx, `select @schema@.skip_head(queue => $1, tenant => $2, ordering_key => $3)`, lane.args(), []any{&now})
}
