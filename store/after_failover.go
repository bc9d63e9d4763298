package store

import "context"

// AfterFailover moves fences and turns far ahead. Call it once after the
// promotion of an asynchronous standby, or a restore: numbers that were given
// out before, and whose record was lost, must not be given out again.
func (s *Store) AfterFailover(ctx context.Context) error {
	_, err := s.db.Exec(ctx, s.sql(`select @schema@.after_failover()`))
	return wrap(err)
}
