package dispatcher_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC18_NoAdvisoryLockIsLeft after 1,000 keyed jobs, plain and transactional,
// of which a third is cancelled while it runs and a third panics.
func TestC18_NoAdvisoryLockIsLeft(t *testing.T) {
	t.Parallel()
	const jobs, keys = 1000, 50
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 20}}})
	end := func(ctx context.Context, job dispatcher.Job[payload]) error {
		switch job.Payload.N % 3 {
		case 0:
			<-ctx.Done() // it is cancelled
			return ctx.Err()
		case 1:
			panicHere()
		}
		return nil
	}
	dispatcher.Handle(d, "plain", end)
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if err := effect(ctx, tx, job); err != nil {
			return err
		}
		return end(ctx, job)
	})
	var all []store.NewJob
	for i := range jobs {
		all = append(all, store.NewJob{Kind: []string{"plain", "tx"}[i/3%2], OrderingKey: fmt.Sprint(i % keys), Payload: payload{i}, MaxAttempts: 1})
	}
	r.enqueue(all...)
	cancels := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { cancels <- cancelThirds(ctx, r) }()
	r.runUntilIdle(d)
	stop()
	if err := <-cancels; err != nil {
		t.Error(err)
	}
	for outcome, want := range map[string]int{"completed": jobs / 3, "cancelled": jobs/3 + 1, "dead": jobs / 3} {
		if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.jobs where state = $1 and attempt = 1", outcome); n != want {
			t.Errorf("%d jobs are %s, want %d", n, outcome, want)
		}
	}
	// A backend that was told to stop lets go a moment later.
	r.until(`not exists (select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()))`)
	if n := r.effects(); n != testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where kind = 'tx' and outcome = 'completed'") {
		t.Errorf("%d effects, not one for each transactional job that was completed", n)
	}
}

// cancelThirds cancels the jobs that wait to be cancelled, once they run.
func cancelThirds(ctx context.Context, r *rig) error {
	for ctx.Err() == nil {
		_, err := r.pool.Exec(ctx, `select lockstep.cancel(id) from lockstep.job
			where (payload ->> 'n')::integer % 3 = 0 and worker <> lockstep.nobody() and not cancel_requested`)
		if err != nil && ctx.Err() == nil {
			return err
		}
		<-time.After(2 * time.Millisecond)
	}
	return nil
}
