package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DeadFilter says which dead letters are meant: those that all of its fields
// hold for. A zero field holds for any.
type DeadFilter struct {
	Queue       string `json:"queue,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	OrderingKey string `json:"ordering_key,omitempty"`
	// Error is a pattern of LIKE for the error of the last attempt: % is any
	// text, _ any sign, and a backslash takes the meaning from the sign after it.
	// At most 500 bytes.
	Error      string    `json:"error,omitempty"`
	DiedFrom   time.Time `json:"died_from,omitzero"`   // included
	DiedBefore time.Time `json:"died_before,omitzero"` // not included
}

// args are the filter as SQL takes it: null is any.
func (f DeadFilter) args() []any {
	return []any{
		optional(f.Queue), optional(f.Kind), optional(f.Tenant), optional(f.OrderingKey), optional(f.Error),
		optionalTime(f.DiedFrom), optionalTime(f.DiedBefore),
	}
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// check refuses what never reaches SQL as a value.
func (f DeadFilter) check() error {
	return checkTexts(
		text{"queue", f.Queue}, text{"kind", f.Kind}, text{"tenant", f.Tenant},
		text{"ordering_key", f.OrderingKey}, text{"error", f.Error},
	)
}

// DeadLetter is a dead job without what it carries.
type DeadLetter struct {
	ID          int64     `json:"id"`
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind"`
	Tenant      string    `json:"tenant"`
	OrderingKey string    `json:"ordering_key"`
	Blocking    bool      `json:"blocking"` // it holds its lane up until a person decides
	Attempt     int       `json:"attempt"`  // attempts that it had
	MaxAttempts int       `json:"max_attempts"`
	Fence       int64     `json:"fence"` // of its last claim
	Error       string    `json:"error"` // of its last attempt
	DiedAt      time.Time `json:"died_at"`
	CreatedAt   time.Time `json:"created_at"`
}

func (d *DeadLetter) fields() []any {
	return []any{
		&d.ID, &d.Queue, &d.Kind, &d.Tenant, &d.OrderingKey, &d.Blocking, &d.Attempt, &d.MaxAttempts,
		&d.Fence, &d.Error, &d.DiedAt, &d.CreatedAt,
	}
}

const deadColumns = `id, queue, kind, tenant, coalesce(ordering_key, ''), blocking, attempt, max_attempts,
	fence, coalesce(error, ''), died_at, created_at`

// DeadPage says which page of dead letters is asked for.
type DeadPage struct {
	// After is the last letter of the page before; nil: from the latest on.
	After *DeadLetter
	// Limit is how many letters a page has: 1 to 1000. Zero: 100.
	Limit int
}

const listDeadSQL = `select ` + deadColumns + ` from @schema@.list_dead(queue => $1, kind => $2, tenant => $3, ordering_key => $4,
	error => $5, died_from => $6, died_before => $7, after_died_at => $8, after_id => $9, max => $10)`

// ListDead is a page of dead letters, the latest first. ErrInvalid for a filter
// that is none.
func (s *Store) ListDead(ctx context.Context, filter DeadFilter, page DeadPage) ([]DeadLetter, error) {
	if err := filter.check(); err != nil {
		return nil, err
	}
	var after *time.Time
	var id *int64
	if page.After != nil {
		after, id = &page.After.DiedAt, &page.After.ID
	}
	if page.Limit == 0 {
		page.Limit = 100
	}
	return collect(ctx, s, listDeadSQL, func(row pgx.CollectableRow) (DeadLetter, error) {
		var d DeadLetter
		return d, row.Scan(d.fields()...)
	}, append(filter.args(), after, id, page.Limit)...)
}

// DeadJob is a dead letter, whole.
type DeadJob struct {
	DeadLetter
	Payload json.RawMessage `json:"payload"`
	Headers json.RawMessage `json:"headers"`
	// Attempts are all that did not complete it, the first first, those before
	// a replay too: as far back as attempts are kept.
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one that did not complete its job.
type Attempt struct {
	Attempt   int       `json:"attempt"` // its number since the job was enqueued or replayed, from 1
	Outcome   string    `json:"outcome"` // failed, dead, lost, released, snoozed or cancelled
	Error     string    `json:"error"`
	Fence     int64     `json:"fence"`
	Worker    WorkerID  `json:"worker"`
	ClaimedAt time.Time `json:"claimed_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// ShowDead is one dead letter, with its payload and its attempts. ErrNotFound
// for an id that never was, ErrState for a job that is not dead.
func (s *Store) ShowDead(ctx context.Context, id int64) (DeadJob, error) {
	var d DeadJob
	err := s.row(ctx, `select `+deadColumns+`, payload, headers from @schema@.show_dead(id => $1)`, []any{id},
		append(d.fields(), &d.Payload, &d.Headers))
	if errors.Is(err, pgx.ErrNoRows) {
		return d, fmt.Errorf("%w: job %d was replayed or discarded this moment", ErrState, id)
	}
	if err == nil {
		d.Attempts, err = s.Attempts(ctx, id)
	}
	return d, err
}

const attemptsSQL = `select attempt, outcome, coalesce(error, ''), fence, worker, claimed_at, ended_at
	from @schema@.attempts where job_id = $1 order by fence`

// Attempts are those of a job that did not complete it, the first first. None
// for a job that had none, or that is not on record.
func (s *Store) Attempts(ctx context.Context, id int64) ([]Attempt, error) {
	return collect(ctx, s, attemptsSQL, func(row pgx.CollectableRow) (Attempt, error) {
		var a Attempt
		return a, row.Scan(&a.Attempt, &a.Outcome, &a.Error, &a.Fence, &a.Worker, &a.ClaimedAt, &a.EndedAt)
	}, id)
}
