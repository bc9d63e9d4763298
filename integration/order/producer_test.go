package order_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
)

const kind = "order.test"

// sent is a job whose transaction was committed, as its producer knows it.
type sent struct {
	id    int64
	lane  string
	xid   int64
	place int       // among the jobs of its transaction
	due   time.Time // zero: at once
}

// ledger is what all producers have sent.
type ledger struct {
	mu   sync.Mutex
	jobs []sent
}

func (l *ledger) add(jobs []sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, jobs...)
}

// producer commits transactions with a few jobs each.
type producer struct {
	plan
	draw
	pool *pgxpool.Pool
	sent *ledger
}

func (p *producer) run(ctx context.Context, transactions int) error {
	for range transactions {
		if err := p.transaction(ctx); err != nil {
			return fmt.Errorf("a producer's transaction: %w", err)
		}
	}
	return nil
}

func (p *producer) transaction(ctx context.Context) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if p.chance(p.repeatable) {
		options.IsoLevel = pgx.RepeatableRead
	}
	tx, err := p.pool.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var xid int64
	if err := tx.QueryRow(ctx, `select pg_current_xact_id()::text::bigint`).Scan(&xid); err != nil {
		return err
	}
	var jobs []sent
	for place := range 1 + p.IntN(4) {
		job, err := p.add(ctx, tx, sent{xid: xid, place: place})
		if err != nil {
			return err
		}
		jobs = append(jobs, job)
	}
	if p.chance(p.rollbacks) {
		return nil
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	p.sent.add(jobs)
	return nil
}

// add inserts a job, sometimes after another that is rolled back to a savepoint.
func (p *producer) add(ctx context.Context, tx pgx.Tx, job sent) (sent, error) {
	if p.chance(p.savepoints) {
		inner, err := tx.Begin(ctx)
		if err != nil {
			return job, err
		}
		if _, err := p.insert(ctx, inner, p.drawn(job)); err != nil {
			return job, err
		}
		if err := inner.Rollback(ctx); err != nil {
			return job, err
		}
	}
	p.rest(p.pause)
	job, err := p.insert(ctx, tx, p.drawn(job))
	p.rest(p.pause)
	return job, err
}

// drawn decides where and when a job is to run.
func (p *producer) drawn(job sent) sent {
	job.lane = p.draw.lane(p.plan)
	if p.chance(p.scheduled) {
		job.due = time.Now().Add(time.Duration(20+p.IntN(280)) * time.Millisecond).Truncate(time.Microsecond)
	}
	return job
}

// insert uses the store's way and plain SQL in turns.
func (p *producer) insert(ctx context.Context, tx pgx.Tx, job sent) (sent, error) {
	if p.chance(0.5) {
		e, err := store.New(tx).Enqueue(ctx, store.NewJob{Kind: kind, OrderingKey: job.lane, RunAt: job.due})
		job.id = e.ID
		return job, err
	}
	var due *time.Time
	if !job.due.IsZero() {
		due = &job.due
	}
	err := tx.QueryRow(ctx, `insert into lockstep.job (kind, ordering_key, run_at)
		values ($1, $2, coalesce($3, clock_timestamp())) returning id`, kind, job.lane, due).Scan(&job.id)
	return job, err
}
