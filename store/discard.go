package store

import "context"

// Discard forgets a dead job; a lane that it blocks goes on. ErrNotFound for an
// id that never was, ErrState for a job that is not dead, ErrBusy.
func (s *Store) Discard(ctx context.Context, id int64) error {
	_, err := s.answer(ctx, `select @schema@.discard(id => $1)`, id)
	return err
}
