package dispatcher_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestTimeout ends the context with its cause, and the attempt counts.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	causes := make(chan error, 1)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the context does not tell its deadline")
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	d.Configure("k", dispatcher.HandlerConfig{Timeout: 50 * time.Millisecond})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.runUntilIdle(d)
	if cause := receive(t, "the cause", causes); !errors.Is(cause, dispatcher.ErrTimeout) {
		t.Errorf("the context ended with %v", cause)
	}
	state, attempt, note := r.fate(id)
	if state != "live b-" || attempt != 1 || !strings.Contains(note, "timed out after 50ms") {
		t.Errorf("%s after %d: %s", state, attempt, note)
	}
}

// TestNilAfterTimeout: the work was done, so the job is completed.
func TestNilAfterTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		<-ctx.Done()
		return nil
	})
	d.Configure("k", dispatcher.HandlerConfig{Timeout: 20 * time.Millisecond})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.runUntilIdle(d)
	if state, _, _ := r.fate(id); state != "completed" {
		t.Errorf("%s, want completed", state)
	}
}

// TestTxTimeoutBeginsWithTheRun: the time until there is a connection is not the
// handler's.
func TestTxTimeoutBeginsWithTheRun(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	r := txRig(t)
	var away atomic.Bool
	away.Store(true)
	cfg := r.pool.Config()
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if away.Load() && strings.HasSuffix(c.RuntimeParams["application_name"], " tx") {
			return errors.New("away")
		}
		return nil
	}
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{})
	dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		return cmp.Or(ctx.Err(), effect(context.WithoutCancel(ctx), tx, job))
	})
	d.Configure("k", dispatcher.HandlerConfig{Timeout: timeout})
	id := r.enqueue(store.NewJob{Kind: "k", MaxAttempts: 1})[0]
	r.start(d)
	r.awaitType(dispatcher.Started, id)
	for n, began := 1, time.Now(); time.Since(began) <= timeout; n++ {
		r.await("no connection", n, func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "begin" })
	}
	away.Store(false)
	r.awaitType(dispatcher.Recorded, id)
	if state, attempt, note := r.fate(id); state != "completed" || attempt != 1 {
		t.Errorf("%s in attempt %d (%s)", state, attempt, note)
	}
}

func ignoreContext(until <-chan struct{}) { <-until }

// TestC85HungHandler: a handler that ignores its timeout costs its slot and
// nothing else, and is found in the error by its stack.
func TestC85HungHandler(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 2}}, ReturnGrace: 50 * time.Millisecond,
	})
	release := make(chan struct{})
	dispatcher.Handle(d, "hang", func(context.Context, dispatcher.Job[payload]) error {
		ignoreContext(release)
		return nil
	})
	d.Configure("hang", dispatcher.HandlerConfig{Timeout: 100 * time.Millisecond})
	dispatcher.Handle(d, "normal", func(context.Context, dispatcher.Job[payload]) error { return nil })
	jobs := []store.NewJob{{Kind: "hang", MaxAttempts: 1, Priority: 1}}
	for i := range 10 {
		jobs = append(jobs, store.NewJob{Kind: "normal", OrderingKey: fmt.Sprint(i % 3)})
	}
	hung := r.enqueue(jobs...)[0]
	r.start(d)
	r.awaitType(dispatcher.Stuck, hung)
	r.await("normal jobs", 10, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Kind == "normal" })
	r.awaitType(dispatcher.Recorded, hung)
	state, _, note := r.fate(hung)
	if state != "dead" || !strings.Contains(note, "timed out after 100ms") || !strings.Contains(note, "ignoreContext") {
		t.Errorf("%s: %s", state, note)
	}
	if q := d.Stats().Queues["default"]; q.Stuck != 1 || q.Busy != 1 {
		t.Errorf("stuck %d, busy %d, want 1 and 1", q.Stuck, q.Busy)
	}
	if held := d.Stats().Held; held != 0 {
		t.Errorf("heartbeats go on for %d claims", held)
	}
	close(release)
	r.awaitType(dispatcher.Unstuck, hung)
}

// TestCancelRunning: a cancel ends the handler's context at once, whoever asks.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	started := make(chan struct{})
	causes := make(chan error, 1)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	receive(t, "the handler", started)
	r.until("lockstep.cancel($1) = 'requested'", id) // busy while a heartbeat has the row
	if cause := receive(t, "the cause", causes); !errors.Is(cause, dispatcher.ErrCancelled) {
		t.Errorf("the context ended with %v", cause)
	}
	r.awaitType(dispatcher.Recorded, id)
	if state, _, _ := r.fate(id); state != "cancelled" {
		t.Errorf("%s, want cancelled", state)
	}
}

// TestForgedCancelIsOnlyAHint: anybody can send a notification.
func TestForgedCancelIsOnlyAHint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	started := make(chan struct{})
	release := make(chan error)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		close(started)
		<-release
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	receive(t, "the handler", started)
	r.awaitType(dispatcher.Listening, 0)
	before := testdb.Value[string](t, r.db, "select lease_until::text from lockstep.job")
	r.db.Exec(t, "select pg_notify(lockstep.channel(), 'c "+fmt.Sprint(id)+"')")
	r.until("lease_until::text <> $1 from lockstep.job", before) // by the heartbeat that it hastened
	close(release)
	r.awaitType(dispatcher.Recorded, id)
	if state, _, _ := r.fate(id); state != "completed" {
		t.Errorf("%s, want completed", state)
	}
}
