package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outcome is how an attempt ended, as its worker reports it.
type Outcome string

// The outcomes a worker may report.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"    // runs again after Delay, or is dead if it was the last attempt
	Dead      Outcome = "dead"      // failed for good: no further attempt
	Snoozed   Outcome = "snoozed"   // runs again after Delay; the attempt is not used up
	Released  Outcome = "released"  // given back at once; the attempt is not used up
	Cancelled Outcome = "cancelled" // ended because a cancel was asked for
)

// Finish is one report.
type Finish struct {
	Claim
	Outcome Outcome
	// Result is stored with a completed job: JSON, up to 64 KiB. A result that
	// can't be stored is replaced by a note that says so: the job is completed.
	Result json.RawMessage
	// Error is stored with any other outcome: cleaned and cut to 64 KiB.
	Error string
	// Delay until the next attempt of a Failed (nil: the queue's backoff) or
	// Snoozed job. Clamped to 0 … 366 days.
	Delay *time.Duration
}

// FinishState is what became of one report.
type FinishState string

// What a finish may answer.
const (
	FinishDone    FinishState = "done"
	FinishAlready FinishState = "already" // this very report (or one like it) was recorded before
	FinishPending FinishState = "pending" // recorded for good; the lane moves on later: report again, or leave it to due()
	FinishBusy    FinishState = "busy"    // the row is locked for a moment, nothing was recorded: report again in a millisecond
	FinishLost    FinishState = "lost"    // the claim is not this worker's any more: nothing was changed
)

// Finished is the answer to one report.
type Finished struct {
	State FinishState
	// Next is the lane's next job, claimed for this worker (the hand-over);
	// nil if there is none or it was not asked for.
	Next *Job
}

// FinishArgs are a set of reports of one worker, at most 1000. More than 200
// lanes in one call: the rest answers FinishBusy.
type FinishArgs struct {
	Worker  WorkerID
	Reports []Finish
	// Take are the kinds for which this worker takes over the lane's next job
	// at once, if no other job of that queue is ready for it. nil: none.
	Take []string
	// Lease of the jobs taken over.
	Lease time.Duration
	// SettleOnly, for a finish inside the handler's own transaction: a keyed
	// job's outcome is recorded with the transaction, and its lane moves on by
	// a second Finish after the commit (or by due()). It should be the
	// transaction's last statement.
	SettleOnly bool
}

const finishSQL = `select id, outcome, next from @schema@.finish(worker => $1, ids => $2, fences => $3,
	outcomes => $4, results => $5::text[]::jsonb[], errors => $6, delays => $7,
	take => $8, take_lease => $9, settle_only => $10)`

// Finish records outcomes and moves lanes on. It answers per job id.
func (s *Store) Finish(ctx context.Context, args FinishArgs) (map[int64]Finished, error) {
	n := len(args.Reports)
	ids, fences, outcomes := make([]int64, n), make([]int64, n), make([]string, n)
	results, errs, delays := make([]*string, n), make([]*string, n), make([]*time.Duration, n)
	for i, r := range args.Reports {
		ids[i], fences[i], outcomes[i], delays[i] = r.ID, r.Fence, string(r.Outcome), clampDelay(r.Delay)
		results[i], errs[i] = cleanResult(r.Result), cleanError(r.Error)
	}
	answers := make(map[int64]Finished, n)
	err := s.do(ctx, func(db DB) error {
		rows, err := db.Query(ctx, s.sql(finishSQL), args.Worker, ids, fences, outcomes, results, errs, delays,
			args.Take, args.Lease, args.SettleOnly)
		if err != nil {
			return err
		}
		return scanFinished(rows, answers)
	})
	return answers, err
}

func scanFinished(rows pgx.Rows, answers map[int64]Finished) error {
	var (
		id    int64
		state FinishState
		next  []byte
	)
	_, err := pgx.ForEachRow(rows, []any{&id, &state, &next}, func() error {
		f := Finished{State: state}
		if next != nil {
			f.Next = new(Job)
			if err := json.Unmarshal(next, f.Next); err != nil {
				return err
			}
		}
		answers[id] = f
		return nil
	})
	return err
}
