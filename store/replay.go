package store

import "context"

// ReplayState is what a replay came to.
type ReplayState string

// What Replay may answer.
const (
	Replayed        ReplayState = "replayed"
	ReplayDuplicate ReplayState = "duplicate" // an unfinished job has its dedupe key: the dead letter stays
)

// Replay gives a dead job a full new budget of attempts: in its place if it
// blocks its lane, else like a new job, at the end of its lane. It keeps its
// id, and its attempts stay on record. ErrNotFound for an id that never was,
// ErrState for a job that is not dead, ErrBusy.
func (s *Store) Replay(ctx context.Context, id int64) (ReplayState, error) {
	state, err := s.answer(ctx, `select @schema@.replay(id => $1)`, id)
	return ReplayState(state), err
}
