package store

import "context"

// UnblockLane lets a lane go on behind the dead job that blocks it; the dead
// letter stays. True if it went on at once, false if it will in a moment, since
// another transaction is at the lane. ErrNotFound for a lane without a head;
// ErrState for one that is not blocked; ErrBusy.
func (s *Store) UnblockLane(ctx context.Context, lane Lane) (bool, error) {
	if err := lane.check(); err != nil {
		return false, err
	}
	answer, err := s.answer(ctx, `select @schema@.unblock_lane(queue => $1, tenant => $2, ordering_key => $3)`, lane.args()...)
	return answer == "unblocked", err
}
