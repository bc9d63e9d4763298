package store

import "context"

// CancelState is what a cancel came to.
type CancelState string

// What Cancel may answer.
const (
	CancelDone      CancelState = "cancelled" // it will not run (again)
	CancelRequested CancelState = "requested" // it runs: its worker was told, and its context ends
	CancelEnded     CancelState = "ended"     // it was over already
)

// Cancel ends a job that nobody runs, or asks the worker that runs it to stop:
// if that attempt fails, there is no other one. A lane goes on behind a
// cancelled head. ErrNotFound for an id that never was, ErrState for a dead job
// that blocks its lane (Discard that one), ErrBusy.
func (s *Store) Cancel(ctx context.Context, id int64) (CancelState, error) {
	state, err := s.answer(ctx, `select @schema@.cancel(id => $1)`, id)
	return CancelState(state), err
}
