package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// ExtendState is what became of one lease.
type ExtendState string

// What an extend may answer.
const (
	Extended        ExtendState = "extended"
	ExtendBusy      ExtendState = "busy"      // the row is locked for a moment: try again soon; the lease is as it was
	ExtendLost      ExtendState = "lost"      // the claim is not this worker's any more
	ExtendCancelled ExtendState = "cancelled" // extended, but somebody asked for a cancel
)

const extendSQL = `select id, outcome from @schema@.extend(worker => $1, ids => $2, fences => $3, lease => $4)`

// Extend makes the leases of claims end lease from the database's now. It
// answers with a state per job id.
func (s *Store) Extend(ctx context.Context, worker WorkerID, claims []Claim, lease time.Duration) (map[int64]ExtendState, error) {
	ids, fences := split(claims)
	states := make(map[int64]ExtendState, len(claims))
	err := s.do(ctx, func(db DB) error {
		rows, err := db.Query(ctx, s.sql(extendSQL), worker, ids, fences, lease)
		if err != nil {
			return err
		}
		var id int64
		var state ExtendState
		_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
			states[id] = state
			return nil
		})
		return err
	})
	return states, err
}

func split(claims []Claim) (ids, fences []int64) {
	ids, fences = make([]int64, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		ids[i], fences[i] = c.ID, c.Fence
	}
	return ids, fences
}
