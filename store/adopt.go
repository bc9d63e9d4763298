package store

import "context"

// Adopt makes this database the home of the schema, once it is a copy that may
// run the jobs itself: a restored one, say. Until then workers are refused with
// ErrNotHome. It does what AfterFailover does besides. With hold it pauses every
// queue that has jobs or settings first; Resume lets them go on. adopted is false if
// the schema was at home here already.
//
// What was running in the original when the copy was made runs here when its
// leases have ended.
func (s *Store) Adopt(ctx context.Context, hold bool) (adopted bool, err error) {
	return adopted, s.row(ctx, `select @schema@.adopt(hold => $1)`, []any{hold}, []any{&adopted})
}
