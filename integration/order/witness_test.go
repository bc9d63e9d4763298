package order_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// witnessTable is the log of what happened. Each row is committed before the
// one who wrote it goes on, and its number drawn before that: so along a lane
// the numbers are in the order of what happened.
const witnessTable = `create schema witness; create table witness.log (
	seq bigint generated always as identity primary key,
	job bigint not null,
	event text not null,
	at timestamptz not null default clock_timestamp())`

// event is what happened to a job.
type event string

const (
	started   event = "started"
	failed    event = "failed"    // an attempt ended; there will be another
	completed event = "completed" // an attempt ended, and the job with it
	cancelled event = "cancelled" // before it was claimed; as lockstep.cancel answers
	requested event = "requested" // a cancel of a job that somebody runs; the same
	deleted   event = "deleted"   // by hand
)

// entry is a row of the log.
type entry struct {
	job   int64
	event event
	at    time.Time // by the database's clock
}

// testify adds a row to the log.
func testify(ctx context.Context, pool *pgxpool.Pool, job int64, e event) error {
	_, err := pool.Exec(ctx, `insert into witness.log (job, event) values ($1, $2)`, job, e)
	return err
}

// testimony is the whole log, in its order.
func testimony(ctx context.Context, pool *pgxpool.Pool) ([]entry, error) {
	rows, err := pool.Query(ctx, `select job, event, at from witness.log order by seq`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (entry, error) {
		var e entry
		return e, row.Scan(&e.job, &e.event, &e.at)
	})
}
