package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// State is where a job stands, as everyone spells it.
type State string

// The states of a job.
const (
	StateScheduled State = "scheduled" // its due time has not come
	StateWaiting   State = "waiting"   // behind its lane's head
	StateReady     State = "ready"     // it may run now
	StateRunning   State = "running"   // claimed; if its lease has ended, about to be claimed again
	StateRetrying  State = "retrying"  // in backoff after a failed attempt, or snoozed after one; it holds its lane
	StateCompleted State = "completed"
	StateCancelled State = "cancelled"
	StateDead      State = "dead" // out of attempts, or failed for good
)

// Status is all that is on record of a job. Times are by the database's clock;
// a zero time is one that there is not.
type Status struct {
	ID          int64
	State       State
	Queue       string
	Kind        string
	Tenant      string
	OrderingKey string
	Priority    int
	Attempt     int // attempts started that count
	MaxAttempts int
	Fence       int64    // of the latest claim; 0: never claimed
	Worker      WorkerID // who holds it or ended it; not Valid: nobody
	RunAt       time.Time
	CreatedAt   time.Time
	ClaimedAt   time.Time
	LeaseUntil  time.Time
	FinishedAt  time.Time
	Payload     json.RawMessage
	Headers     json.RawMessage
	Result      json.RawMessage // nil: none
	Error       string          // of the attempt that ended it
	WaitingFor  string          // why it does not run; "": it does, may as soon as a dispatcher has a slot, or has ended
}

const jobStatusSQL = `select id, state, queue, kind, tenant, coalesce(ordering_key, ''), priority, attempt, max_attempts,
	coalesce(fence, 0), worker, run_at, created_at, claimed_at, lease_until, finished_at, payload, headers, result, coalesce(error, ''),
	coalesce(waiting_for, '')
	from @schema@.%s(id => $1)`

// JobStatus is where one job stands. ErrNotFound if no job of this id is on
// record: it never was, its transaction has not committed, or it finished
// longer ago than history is kept.
func (s *Store) JobStatus(ctx context.Context, id int64) (Status, error) {
	return s.jobStatus(ctx, "job_status", id)
}

// JobOutline is the same without payload, headers and result, for roles that may
// not read these.
func (s *Store) JobOutline(ctx context.Context, id int64) (Status, error) {
	return s.jobStatus(ctx, "job_outline", id)
}

func (s *Store) jobStatus(ctx context.Context, function string, id int64) (Status, error) {
	var (
		j                                        Status
		runAt, claimedAt, leaseUntil, finishedAt *time.Time
	)
	err := s.row(ctx, fmt.Sprintf(jobStatusSQL, function), []any{id}, []any{
		&j.ID, &j.State, &j.Queue, &j.Kind, &j.Tenant, &j.OrderingKey, &j.Priority, &j.Attempt, &j.MaxAttempts,
		&j.Fence, &j.Worker, &runAt, &j.CreatedAt, &claimedAt, &leaseUntil, &finishedAt, &j.Payload, &j.Headers, &j.Result, &j.Error, &j.WaitingFor,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return j, fmt.Errorf("%w: job %d", ErrNotFound, id)
	}
	j.RunAt, j.ClaimedAt, j.LeaseUntil, j.FinishedAt = orZero(runAt), orZero(claimedAt), orZero(leaseUntil), orZero(finishedAt)
	return j, err
}
