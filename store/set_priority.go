package store

import "context"

// SetPriority changes the priority of a job that has not ended: -9 to 9, higher
// first, among what may run. Inside a lane it changes nothing, and an attempt
// that runs is not touched. A *FieldError for a bad priority, ErrNotFound for an
// id that never was, ErrState for a job that has ended or blocks its lane, ErrBusy.
func (s *Store) SetPriority(ctx context.Context, id int64, priority int) error {
	if err := (NewJob{Priority: priority}).checkNumbers(); err != nil {
		return err
	}
	_, err := s.answer(ctx, `select @schema@.set_priority(id => $1, priority => $2)`, id, priority)
	return err
}
