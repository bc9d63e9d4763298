package poolers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// payload of a job whose place in its lane is known.
type payload struct {
	N int `json:"n"`
}

// TestC16: without a direct address the listener finds out that it hears
// nothing, a warning says what to set, and jobs run by the poll. With one,
// signals arrive.
func TestC16(t *testing.T) {
	t.Parallel()
	t.Run("all through the pooler", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.dispatcher(dispatcher.Config{Poll: 50 * time.Millisecond})
		dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
		stop := r.start(d)
		r.awaitEvent("poll-only", mode("poll-only"))
		r.db.Exec(t, "select lockstep.enqueue('k')")
		r.await("the job is done", "select exists (select from lockstep.finished_job)")
		stop()
		if log := r.log.String(); !strings.Contains(log, "reached through a pooler") || !strings.Contains(log, "ListenURL") || !strings.Contains(log, "relying on polling") {
			t.Errorf("the log does not say what to do:\n%s", log)
		}
		r.expectNoTrouble()
	})
	t.Run("a direct address to listen", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.dispatcher(dispatcher.Config{Poll: 10 * time.Minute, ListenURL: r.db.URL})
		dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
		stop := r.start(d)
		r.awaitEvent("connected", mode("connected"))
		r.db.Exec(t, "select lockstep.enqueue('k')")
		r.await("the job is done", "select exists (select from lockstep.finished_job)")
		stop()
		if log := r.log.String(); strings.Contains(log, "WARN") {
			t.Errorf("a warning where all is well:\n%s", log)
		}
		r.expectNoTrouble()
	})
}

// TestC17 has ten dispatchers, with pools as pgx makes them by default, work off
// 5,000 jobs that come through the pooler too: keyed ones, keyless ones and
// transactional ones.
func TestC17(t *testing.T) {
	t.Parallel()
	const workers, producers, each = 10, 4, 1250
	r := newRig(t)
	r.db.Exec(t, "create table public.effect (lane text, n int, id bigint generated always as identity)")
	var all []*dispatcher.Dispatcher
	for i := range workers {
		cfg := dispatcher.Config{Poll: time.Second}
		if i%2 == 0 {
			cfg.ListenURL = r.db.URL
		}
		d := r.dispatcher(cfg)
		dispatcher.Handle(d, "plain", func(context.Context, dispatcher.Job[payload]) error { return nil })
		dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
			_, err := tx.Exec(ctx, "insert into public.effect (lane, n) values ($1, $2)", job.OrderingKey, job.Payload.N)
			return err
		})
		all = append(all, d)
	}
	stop := r.start(all...)
	pool := r.pool("&default_query_exec_mode=exec")
	var group errgroup.Group
	for p := range producers {
		group.Go(func() error {
			for n := 0; n < each; n += 25 {
				if _, err := store.New(pool).EnqueueMany(t.Context(), batch(p, n, 25)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	r.await("5,000 jobs are done", "select count(*) = $1 from lockstep.finished_job where outcome = 'completed'", producers*each)
	stop()
	r.expectNoTrouble()
	r.expectNoLocks()
	for what, query := range map[string]string{
		"attempts that failed":              "select count(*) from lockstep.attempt",
		"effects too many or too few":       "select abs(count(*) - (select count(*) from lockstep.finished_job where kind = 'tx')) from public.effect",
		"effects out of their lane's order": `select count(*) from (select n, lag(n) over (partition by lane order by id) as before from public.effect where lane <> '') o where n < before`,
	} {
		if n := testdb.Value[int](t, r.db, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	report, err := verify.Run(t.Context(), pool, verify.Config{Patience: -1})
	if err != nil || !report.Clean() || !report.CommitTimes {
		t.Errorf("verify: %v, %v", err, report.Findings)
	}
}

// batch is some of a producer's jobs: a third has no key, the others are in its
// own five lanes.
func batch(producer, from, n int) (jobs []store.NewJob) {
	for i := from; i < from+n; i++ {
		job := store.NewJob{Kind: "plain", Payload: payload{i}}
		if i%2 == 0 {
			job.Kind = "tx"
		}
		if i%3 > 0 {
			job.OrderingKey = lane(producer*5 + i%5)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// TestC18: of 1,000 keyed jobs a third is cancelled while it runs, a third
// panics. When all is done, no advisory lock is left, and no server session is
// in a transaction.
func TestC18(t *testing.T) {
	t.Parallel()
	const jobs = 999
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{
		ListenURL: r.db.URL, MaxTx: 10, Queues: map[string]dispatcher.Queue{"default": {Concurrency: 60}},
	})
	running := make(chan int64, jobs)
	act := func(ctx context.Context, job dispatcher.Job[payload]) error {
		switch job.Payload.N % 3 {
		case 0:
			running <- job.ID
			<-ctx.Done()
			return ctx.Err()
		case 1:
			panic("as planned")
		}
		return nil
	}
	dispatcher.Handle(d, "plain", act)
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if _, err := tx.Exec(ctx, "select 1"); err != nil {
			return backoff.Permanent(err)
		}
		return act(ctx, job)
	})
	stop := r.start(d)
	r.awaitEvent("connected", mode("connected"))
	var all []store.NewJob
	for i := range jobs {
		all = append(all, store.NewJob{Kind: []string{"plain", "tx"}[i%2], OrderingKey: lane(i % 100), Payload: payload{i}, MaxAttempts: 1})
	}
	pool := r.pool("&default_query_exec_mode=exec")
	if _, err := store.New(pool).EnqueueMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for range jobs / 3 {
		if _, err := store.New(pool).Cancel(t.Context(), <-running); err != nil {
			t.Error(err)
		}
	}
	r.await("all jobs are through", "select not exists (select from lockstep.job)")
	stop()
	for outcome, query := range map[string]string{
		"completed": "select count(*) from lockstep.finished_job where outcome = 'completed'",
		"cancelled": "select count(*) from lockstep.finished_job where outcome = 'cancelled'",
		"dead":      "select count(*) from lockstep.dead_job",
	} {
		if n := testdb.Value[int](t, r.db, query); n != jobs/3 {
			t.Errorf("%d jobs are %s, want %d", n, outcome, jobs/3)
		}
	}
	r.expectNoTrouble()
	r.expectNoLocks()
	r.await("no session in a transaction", `select not exists (select from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%')`)
}

// TestMigratesThroughAPooler: a migration is one transaction, and needs nothing
// of the session that it had before.
func TestMigratesThroughAPooler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn, err := r.pool("").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	config := migrations.Config{Schema: "other"}
	if _, err := migrations.Up(t.Context(), conn.Conn(), config); err != nil {
		t.Fatal(err)
	}
	state, err := migrations.Status(t.Context(), conn.Conn(), config)
	if err != nil || len(state.Problems) > 0 {
		t.Errorf("status: %v, %v", err, state.Problems)
	}
	if err := migrations.Down(t.Context(), conn.Conn(), config, migrations.DropEverything); err != nil {
		t.Error(err)
	}
}

// TestStylesBehindAPooler: behind a pooler answers come as text, in which times
// and intervals look as the database's DateStyle and IntervalStyle say.
func TestStylesBehindAPooler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.db.Exec(t, "alter database "+r.db.Name+" set datestyle = 'German'")
	r.db.Exec(t, "alter database "+r.db.Name+" set intervalstyle = 'iso_8601'")
	d := r.dispatcher(dispatcher.Config{Poll: time.Second})
	dispatcher.Handle(d, "plain", func(context.Context, dispatcher.Job[payload]) error { return nil })
	stop := r.start(d)
	r.db.Exec(t, "select lockstep.enqueue('plain', delay => '50 ms'), lockstep.enqueue('plain', ordering_key => 'a') from generate_series(1, 3)")
	r.await("6 jobs are done", "select count(*) = $1 from lockstep.finished_job where outcome = 'completed'", 6)
	stop()
	r.expectNoTrouble()
}
