package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// logbook is the table in which handlers write down what they do, over a pool
// of its own, so that no row depends on a transaction of the queue's.
type logbook struct {
	pool   *pgxpool.Pool
	log    string // the table, qualified and quoted
	effect string // the table of what transactional handlers did
}

// newLogbook creates the tables.
func newLogbook(ctx context.Context, pool *pgxpool.Pool, db *database) (*logbook, error) {
	b := &logbook{pool: pool, log: db.name("demo_log"), effect: db.name("demo_effect")}
	_, err := pool.Exec(ctx, `create table `+b.log+` (
		entry bigint generated always as identity primary key,
		job bigint not null,
		event text not null,
		at timestamptz not null default clock_timestamp())`)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "create table "+b.effect+" (job bigint not null)")
	return b, err
}

// write adds a row that is committed when it returns.
func (b *logbook) write(ctx context.Context, job int64, e event) error {
	_, err := b.pool.Exec(ctx, "insert into "+b.log+" (job, event) values ($1, $2)", job, string(e))
	return err
}

// act is the effect of a transactional handler: it stands or falls with tx.
func (b *logbook) act(ctx context.Context, tx pgx.Tx, job int64) error {
	_, err := tx.Exec(ctx, "insert into "+b.effect+" (job) values ($1)", job)
	return err
}

// read returns the whole log in the order of insertion.
func (b *logbook) read(ctx context.Context) ([]entry, error) {
	rows, err := b.pool.Query(ctx, "select job, event, at from "+b.log+" order by entry")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e entry, err error) {
		return e, row.Scan(&e.job, (*string)(&e.event), &e.at)
	})
}

// effects counts the effects of each job.
func (b *logbook) effects(ctx context.Context) (map[int64]int, error) {
	rows, err := b.pool.Query(ctx, "select job, count(*) from "+b.effect+" group by job")
	if err != nil {
		return nil, err
	}
	counts := make(map[int64]int)
	var job int64
	var count int
	_, err = pgx.ForEachRow(rows, []any{&job, &count}, func() error {
		counts[job] = count
		return nil
	})
	return counts, err
}

// keepsCommitTimes tells whether the server remembers when transactions were
// committed.
func (b *logbook) keepsCommitTimes(ctx context.Context) (keeps bool, err error) {
	err = b.pool.QueryRow(ctx, "select current_setting('track_commit_timestamp')::bool").Scan(&keeps)
	return keeps, err
}

// commitTimes fills in when the transactions of the jobs were committed, as the
// server has it.
func (b *logbook) commitTimes(ctx context.Context, jobs []sent) error {
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.tx
	}
	rows, err := b.pool.Query(ctx, `select pg_xact_commit_timestamp(id::xid8::xid)
		from unnest($1::text[]) with ordinality as tx (id, place) order by place`, ids)
	if err != nil {
		return err
	}
	i := 0
	var at *time.Time
	_, err = pgx.ForEachRow(rows, []any{&at}, func() error {
		if at == nil {
			return fmt.Errorf("the server has forgotten when transaction %s was committed", ids[i])
		}
		jobs[i].from, jobs[i].to = *at, *at
		i++
		return nil
	})
	return err
}
