package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// txRig is a rig with a table for effects.
func txRig(t *testing.T) *rig {
	r := newRig(t)
	r.db.Exec(t, "create table effect (job bigint)")
	return r
}

func effect(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
	_, err := tx.Exec(ctx, "insert into effect values ($1)", job.ID)
	return err
}

func (r *rig) effects() int {
	r.Helper()
	return testdb.Value[int](r, r.db, "select count(*) from effect")
}

// TestTxCommitsWithTheJob: keyed and keyless, each effect once, in order.
func TestTxCommitsWithTheJob(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if err := job.SetResult(job.Payload.N); err != nil {
			return err
		}
		return effect(ctx, tx, job)
	})
	var jobs []store.NewJob
	for i := range 10 {
		jobs = append(jobs, store.NewJob{Kind: "k", OrderingKey: "a", Payload: payload{i}}, store.NewJob{Kind: "k", Payload: payload{i}})
	}
	r.enqueue(jobs...)
	r.runUntilIdle(d)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where outcome = 'completed' and result = payload -> 'n'"); n != 20 {
		t.Errorf("%d jobs completed with their result, want 20", n)
	}
	if n := r.effects(); n != 20 {
		t.Errorf("%d effects, want 20", n)
	}
}

// TestTxRollsBack whatever does not complete the job.
func TestTxRollsBack(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		end   func(ctx context.Context, tx pgx.Tx) error
		state string
		note  string
	}{
		"error":         {func(context.Context, pgx.Tx) error { return errFailed }, "live b-", "it failed"},
		"panic":         {func(context.Context, pgx.Tx) error { panicHere(); return nil }, "live b-", "at the disco"},
		"snooze":        {func(context.Context, pgx.Tx) error { return dispatcher.Snooze(time.Hour) }, "live b-", "snoozed"},
		"own commit":    {func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, "live b-", "the dispatcher ends this transaction"},
		"own rollback":  {func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, "live b-", "the dispatcher ends this transaction"},
		"aborted":       {abort, "live b-", "returned nil, but a statement in its transaction had failed: ERROR: current transaction is aborted"},
		"timeout":       {func(ctx context.Context, tx pgx.Tx) error { <-ctx.Done(); return ctx.Err() }, "live b-", "timed out after 200ms"},
		"in a query":    {func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "select pg_sleep(60)"); return err }, "live b-", "timed out after 200ms"},
		"at the commit": {deferFailure, "live b-", "commit: ERROR: deferred"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := txRig(t)
			r.db.Exec(t, `
				create function fail() returns trigger language plpgsql as 'begin raise exception ''deferred''; end';
				create table at_commit (); create constraint trigger fail after insert on at_commit
				deferrable initially deferred for each row execute function fail()`)
			d := r.dispatcher(dispatcher.Config{})
			dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
				if err := effect(ctx, tx, job); err != nil {
					return err
				}
				return test.end(ctx, tx)
			})
			if strings.HasPrefix(test.note, "timed out") {
				d.Configure("k", dispatcher.HandlerConfig{Timeout: 200 * time.Millisecond})
			}
			id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
			r.runUntilIdle(d)
			if state, _, note := r.fate(id); state != test.state || !strings.Contains(note, test.note) {
				t.Errorf("%s: %s; want %s: %s", state, note, test.state, test.note)
			}
			if n := r.effects(); n != 0 {
				t.Errorf("%d effects of a job that did not complete", n)
			}
		})
	}
}

func abort(ctx context.Context, tx pgx.Tx) error {
	_, _ = tx.Exec(ctx, "select 1/0")
	return nil
}

func deferFailure(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "insert into at_commit default values")
	return err
}

// TestTxRepeats: what fails to serialize, or deadlocks, is repeated at once
// within the attempt, three times and no more.
func TestTxRepeats(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code     string
		failures int
		state    string
		runs     int32
	}{
		{"40001", 3, "completed", 4},
		{"40P01", 1, "completed", 2},
		{"40001", 9, "live b-", 4},
		{"23505", 9, "live b-", 1},
	} {
		t.Run(fmt.Sprint(test.code, " ", test.failures), func(t *testing.T) {
			t.Parallel()
			r := txRig(t)
			d := r.dispatcher(dispatcher.Config{})
			var runs atomic.Int32
			dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
				if err := effect(ctx, tx, job); err != nil {
					return err
				}
				if int(runs.Add(1)) <= test.failures {
					return fmt.Errorf("in the handler: %w", &pgconn.PgError{Code: test.code})
				}
				return nil
			})
			id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
			r.runUntilIdle(d)
			state, attempt, _ := r.fate(id)
			if state != test.state || attempt != 1 || runs.Load() != test.runs {
				t.Errorf("%s in attempt %d after %d runs, want %s in 1 after %d", state, attempt, runs.Load(), test.state, test.runs)
			}
			if want := map[bool]int{true: 1}[test.state == "completed"]; r.effects() != want {
				t.Errorf("%d effects, want %d", r.effects(), want)
			}
		})
	}
}

// TestTxEndedByTheHandler: a handler that commits by SQL has let go of the run
// lock before the outcome was recorded. Its attempt fails, and says so.
func TestTxEndedByTheHandler(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		_, err := tx.Exec(ctx, "commit")
		return err
	})
	id := r.enqueue(store.NewJob{Kind: "tx", OrderingKey: "a", MaxAttempts: 1})[0]
	r.runUntilIdle(d)
	if state, _, note := r.fate(id); state != "dead" || !strings.Contains(note, "ended its transaction") {
		t.Errorf("%s (%s), want it dead and told why", state, note)
	}
}

// TestTxHungHandler: the transaction of a handler that ignores its timeout is
// ended under it, and its lane goes on.
func TestTxHungHandler(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{ReturnGrace: 50 * time.Millisecond})
	release := make(chan struct{})
	late := make(chan error, 1)
	dispatcher.HandleTx(d, "hang", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		deaf := context.WithoutCancel(ctx)
		if err := effect(deaf, tx, job); err != nil {
			return err
		}
		<-release
		late <- effect(deaf, tx, job)
		return nil
	})
	d.Configure("hang", dispatcher.HandlerConfig{Timeout: 100 * time.Millisecond})
	dispatcher.HandleTx(d, "next", effect)
	ids := r.enqueue(store.NewJob{Kind: "hang", OrderingKey: "a", MaxAttempts: 1}, store.NewJob{Kind: "next", OrderingKey: "a"})
	r.start(d)
	r.awaitType(dispatcher.Recorded, ids[1])
	if state, _, note := r.fate(ids[0]); state != "dead" || !strings.Contains(note, "timed out") {
		t.Errorf("%s: %s", state, note)
	}
	close(release)
	if err := receive(t, "the late effect", late); err == nil {
		t.Error("a handler whose attempt has ended still writes")
	}
	r.awaitType(dispatcher.Unstuck, ids[0])
	if n := r.effects(); n != 1 {
		t.Errorf("%d effects, want the next job's alone", n)
	}
}

// TestTxBound: at most MaxTx run at a time, over all queues, and plain jobs do
// not wait for them.
func TestTxBound(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 20}, "other": {Concurrency: 20}}, MaxTx: 3,
	})
	var now, most atomic.Int32
	full, release := make(chan struct{}, 100), make(chan struct{})
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		full <- struct{}{}
		<-release
		return effect(ctx, tx, job)
	})
	dispatcher.Handle(d, "plain", func(context.Context, dispatcher.Job[payload]) error { return nil })
	var jobs []store.NewJob
	for range 10 {
		jobs = append(jobs, store.NewJob{Kind: "tx"}, store.NewJob{Kind: "tx", Queue: "other"})
	}
	for range 10 {
		jobs = append(jobs, store.NewJob{Kind: "plain"})
	}
	r.enqueue(jobs...)
	r.start(d)
	for range 3 {
		receive(t, "transactional handlers", full)
	}
	r.await("plain jobs", 10, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Kind == "plain" })
	close(release)
	r.await("transactional jobs", 20, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Kind == "tx" })
	if most.Load() > 3 {
		t.Errorf("%d ran at a time, want at most 3", most.Load())
	}
}
