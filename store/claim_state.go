package store

import "context"

// ClaimState is where a claim stands, by its (id, fence, worker).
type ClaimState string

// What ClaimState may answer.
const (
	ClaimRunning ClaimState = "running" // still this worker's, nothing recorded
	ClaimSettled ClaimState = "settled" // an outcome is recorded, the lane has not moved on
	ClaimEnded   ClaimState = "ended"   // an outcome of this fence is recorded
	ClaimIsLost  ClaimState = "lost"
)

// ClaimState looks a claim up; after a COMMIT whose answer was lost it tells
// whether the commit took place. Ask while holding the run lock: an unfinished
// commit holds it.
func (s *Store) ClaimState(ctx context.Context, worker WorkerID, c Claim) (ClaimState, error) {
	var state ClaimState
	return state, s.row(ctx, `select @schema@.claim_state(worker => $1, id => $2, fence => $3)`,
		[]any{worker, c.ID, c.Fence}, []any{&state})
}

// AssertClaim locks the job's row FOR KEY SHARE until the transaction ends:
// heartbeats go on, nobody can take the job away. ErrClaimLost if the claim
// is no longer the caller's.
func (s *Store) AssertClaim(ctx context.Context, c Claim) error {
	_, err := s.db.Exec(ctx, s.sql(`select @schema@.assert_claim(id => $1, fence => $2)`), c.ID, c.Fence)
	return wrap(err)
}

// HoldLane takes the lane's run lock for the transaction by
// pg_try_advisory_xact_lock; false if another session holds it.
func (s *Store) HoldLane(ctx context.Context, c Claim) (bool, error) {
	var held bool
	return held, s.row(ctx, `select @schema@.hold_lane(id => $1, fence => $2)`, []any{c.ID, c.Fence}, []any{&held})
}

// EndStuck ends the database session that a claim reported as stuck, after
// testing again that it still is. It runs with the caller's rights, which must
// allow pg_terminate_backend on that session; false if it was not stuck any more.
func (s *Store) EndStuck(ctx context.Context, k Stuck) (bool, error) {
	var ended bool
	return ended, s.row(ctx, `select @schema@.end_stuck(id => $1, fence => $2, pid => $3, backend_start => $4)`,
		[]any{k.JobID, k.Fence, k.PID, k.BackendStart}, []any{&ended})
}
