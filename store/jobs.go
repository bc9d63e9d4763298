package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// JobFilter says which jobs to list. A zero field means all.
type JobFilter struct {
	State       State
	Queue       string
	Kind        string
	Tenant      string
	OrderingKey string
	// Before lists jobs with lower ids than this: the last id of the page before.
	Before int64
}

// where are the conditions of a filter; a *FieldError for what PostgreSQL can't
// store, and so can't look for.
func (f JobFilter) where() (w where, err error) {
	texts := []text{
		{"state", string(f.State)}, {"queue", f.Queue}, {"kind", f.Kind}, {"tenant", f.Tenant}, {"ordering_key", f.OrderingKey},
	}
	if err := checkTexts(texts...); err != nil {
		return w, err
	}
	w.equal(texts...)
	if f.Before != 0 {
		w.add("id < $", f.Before)
	}
	return w, nil
}

// Listed is a job in a list: Status without payload, headers and result.
type Listed struct {
	ID          int64
	State       State
	Queue       string
	Kind        string
	Tenant      string
	OrderingKey string
	Priority    int
	Attempt     int
	MaxAttempts int
	RunAt       time.Time // zero: none, as Claimed and Finished
	CreatedAt   time.Time
	ClaimedAt   time.Time
	FinishedAt  time.Time
	Error       string
	WaitingFor  string
}

// The page is chosen first, and the look-ups that tell why a job waits are made
// for its jobs alone. Times come as microseconds: the answer is text (planned),
// and there they look as the session's DateStyle says.
const jobsSQL = `select s.id, s.state, s.queue, s.kind, s.tenant, coalesce(s.ordering_key, ''), s.priority, s.attempt, s.max_attempts,
	(extract(epoch from s.run_at) * 1000000)::bigint, (extract(epoch from s.created_at) * 1000000)::bigint,
	(extract(epoch from s.claimed_at) * 1000000)::bigint, (extract(epoch from s.finished_at) * 1000000)::bigint, left(coalesce(s.error, ''), 1000), coalesce(s.waiting_for, '')
	from (select id from @schema@.jobs%s order by id desc limit %d) p
	cross join lateral @schema@.job_outline(p.id) s order by s.id desc`

// Jobs lists jobs, the newest first, up to limit of them: live ones, and those
// on record. An error text is cut at 1,000 characters. A filter that few jobs
// match may read all that are on record: bound ctx.
func (s *Store) Jobs(ctx context.Context, f JobFilter, limit int) ([]Listed, error) {
	w, err := f.where()
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, fmt.Sprintf(jobsSQL, w.clause(), limit), scanListed, w.planned()...)
}

func scanListed(row pgx.CollectableRow) (j Listed, err error) {
	var runAt, createdAt, claimedAt, finishedAt *int64
	err = row.Scan(&j.ID, &j.State, &j.Queue, &j.Kind, &j.Tenant, &j.OrderingKey, &j.Priority, &j.Attempt, &j.MaxAttempts,
		&runAt, &createdAt, &claimedAt, &finishedAt, &j.Error, &j.WaitingFor)
	j.RunAt, j.CreatedAt, j.ClaimedAt, j.FinishedAt = fromMicros(runAt), fromMicros(createdAt), fromMicros(claimedAt), fromMicros(finishedAt)
	return j, err
}

// fromMicros is the time that many microseconds after 1970; zero for null.
func fromMicros(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMicro(*n)
}

// JobsMatching counts the jobs of a filter, but no further than limit.
func (s *Store) JobsMatching(ctx context.Context, f JobFilter, limit int) (n int, err error) {
	w, err := f.where()
	if err != nil {
		return 0, err
	}
	statement := fmt.Sprintf(`select count(*) from (select from @schema@.jobs%s limit %d) m`, w.clause(), limit)
	return n, s.row(ctx, statement, w.planned(), []any{&n})
}
