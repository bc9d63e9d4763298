package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
)

// meanPause is what a producer waits between two transactions.
const meanPause = 12 * time.Millisecond

// producer is a service that enqueues jobs in its own transactions.
type producer struct {
	pool   *pgxpool.Pool
	schema string
	list   *sentList
	random *rand.Rand
}

// steady commits small transactions until the time is over.
func (p *producer) steady(ctx context.Context, until time.Time) error {
	for time.Now().Before(until) {
		if err := p.transaction(ctx, p.few); err != nil {
			return err
		}
		if err := p.pause(ctx, 2*meanPause); err != nil {
			return err
		}
	}
	return nil
}

// burst enqueues n jobs by one call.
func (p *producer) burst(ctx context.Context, n int) error {
	return p.transaction(ctx, func(ctx context.Context, o *open) error { return p.bulk(ctx, o, n) })
}

// transaction runs fill in a transaction and remembers the jobs if it was
// committed. One in twenty is rolled back.
func (p *producer) transaction(ctx context.Context, fill func(context.Context, *open) error) error {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	o := &open{tx: tx}
	err = tx.QueryRow(ctx, "select pg_current_xact_id()::text, clock_timestamp()").Scan(&o.id, &o.began)
	if err != nil {
		return err
	}
	if err := fill(ctx, o); err != nil {
		return err
	}
	if !o.bulk && p.random.IntN(20) == 0 {
		p.list.rollback()
		return tx.Rollback(ctx)
	}
	from := time.Now()
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("committing jobs: %w", err)
	}
	to := time.Now()
	for i := range o.jobs {
		o.jobs[i].from, o.jobs[i].to = from, to
	}
	p.list.commit(o.jobs)
	return nil
}

// open is a transaction of a producer's that is not committed yet.
type open struct {
	tx    pgx.Tx
	id    string    // pg_current_xact_id()
	began time.Time // by the database's clock, before its first job
	bulk  bool
	jobs  []sent
}

// few enqueues one to three jobs, with pauses, and now and then one that a
// savepoint takes back.
func (p *producer) few(ctx context.Context, o *open) error {
	for range 1 + p.random.IntN(3) {
		if p.random.IntN(10) == 0 {
			if err := p.takeBack(ctx, o); err != nil {
				return err
			}
		}
		job, mine := p.draw(o)
		enqueued, err := store.New(o.tx).In(p.schema).Enqueue(ctx, job)
		if err != nil {
			return err
		}
		mine.id = enqueued.ID
		o.jobs = append(o.jobs, mine)
		if err := p.pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// takeBack enqueues a job behind a savepoint and rolls back to it.
func (p *producer) takeBack(ctx context.Context, o *open) error {
	savepoint, err := o.tx.Begin(ctx)
	if err != nil {
		return err
	}
	job, _ := p.draw(o)
	if _, err := store.New(savepoint).In(p.schema).Enqueue(ctx, job); err != nil {
		return err
	}
	p.list.rollbackSavepoint()
	return savepoint.Rollback(ctx)
}

// bulk enqueues n jobs without work to do.
func (p *producer) bulk(ctx context.Context, o *open, n int) error {
	o.bulk = true
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		tenant, key := p.lane(burstLanesEach)
		jobs[i] = store.NewJob{Kind: kindPlain, Tenant: tenant, OrderingKey: key, Payload: plan{}}
		o.jobs = append(o.jobs, sent{lane: laneName(tenant, key), tx: o.id, place: i, burst: true})
	}
	enqueued, err := store.New(o.tx).In(p.schema).EnqueueMany(ctx, jobs)
	if err != nil {
		return err
	}
	for i, e := range enqueued {
		o.jobs[i].id = e.ID
	}
	return nil
}

// pause waits a random time below most.
func (p *producer) pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(time.Duration(p.random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
