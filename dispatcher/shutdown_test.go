package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC87Shutdown: short handlers end within the grace; long ones are told to
// stop, and their jobs are given back at once, the attempt not used up, also by
// handlers that do not listen; nothing new begins.
func TestC87Shutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{ShutdownGrace: 300 * time.Millisecond, ReturnGrace: 100 * time.Millisecond})
	stopping, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	causes := make(chan error, 1)
	dispatcher.Handle(d, "short", func(context.Context, dispatcher.Job[payload]) error { <-stopping; return nil })
	dispatcher.Handle(d, "long", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	dispatcher.Handle(d, "deaf", func(context.Context, dispatcher.Job[payload]) error { <-release; return nil })
	dispatcher.HandleTx(d, "deaf tx", func(_ context.Context, _ pgx.Tx, _ dispatcher.Job[payload]) error { <-release; return nil })
	ids := r.enqueue(store.NewJob{Kind: "short", OrderingKey: "a"}, store.NewJob{Kind: "long", OrderingKey: "b"},
		store.NewJob{Kind: "deaf", OrderingKey: "c"}, store.NewJob{Kind: "deaf tx", OrderingKey: "d"}, store.NewJob{Kind: "short", OrderingKey: "a"})
	stop := r.start(d)
	r.await("started", 4, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })
	close(stopping)
	stop()
	if cause := receive(t, "the cause", causes); !errors.Is(cause, dispatcher.ErrShutdown) {
		t.Errorf("the context ended with %v", cause)
	}
	for i, want := range []struct {
		state   string
		attempt int
	}{{"completed", 1}, {"live r-", 0}, {"live r-", 0}, {"live r-", 0}, {"live r-", 0}} {
		if state, attempt, note := r.fate(ids[i]); state != want.state || attempt != want.attempt {
			t.Errorf("job %d: %s after attempt %d (%s), want %s after %d", i, state, attempt, note, want.state, want.attempt)
		}
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.dispatcher"); n != 0 {
		t.Error("the dispatcher is still registered")
	}
	// The server learns of closed connections a moment later.
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		n := testdb.Value[int](t, r.db, "select count(*) from pg_stat_activity where datname = current_database() and application_name like '%lockstep%'")
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", n)
		}
	}
}

// TestC87ShutdownWithoutDatabase: what can't be recorded any more is told, and Run
// returns all the same.
func TestC87ShutdownWithoutDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	d := r.dispatcherOn(pool, dispatcher.Config{ShutdownGrace: -1, ReturnGrace: 100 * time.Millisecond})
	started := make(chan struct{})
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	stop := r.start(d)
	receive(t, "the handler", started)
	proxy.Set(faultproxy.Fault{Refuse: true})
	proxy.Reset()
	stop()
	if e := r.awaitType(dispatcher.Unrecorded, id); e.Outcome != store.Released {
		t.Errorf("unrecorded was %s, want released", e.Outcome)
	}
}

// atRegister calls done when a registration has been answered.
type atRegister struct{ done func() }

type isRegister struct{}

func (atRegister) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, isRegister{}, strings.Contains(q.SQL, "register("))
}

func (a atRegister) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(isRegister{}) == true {
		a.done()
	}
}

// TestStoppedAsItRegisters: it takes its registration back.
func TestStoppedAsItRegisters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	registered := false
	cfg := r.pool.Config()
	cfg.ConnConfig.Tracer = atRegister{sync.OnceFunc(func() {
		registered = testdb.Value[bool](t, r.db, "select exists (select from lockstep.dispatcher)")
		cancel()
	})}
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.dispatcher"); !registered || n != 0 {
		t.Errorf("registered: %t; %d registrations are left", registered, n)
	}
}

// TestRunAgain: a Dispatcher can run again after it has returned, as another
// worker, but not twice at a time.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	twice := make(chan error, 1)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		twice <- d.Run(ctx)
		return nil
	})
	for range 2 {
		r.enqueue(store.NewJob{Kind: "k"})
		r.runUntilIdle(d)
		if err := receive(t, "the second Run", twice); err == nil {
			t.Error("a Run beside another one returned no error")
		}
	}
	if n := testdb.Value[int](t, r.db, "select count(distinct worker) from lockstep.finished_job"); n != 2 {
		t.Errorf("%d workers, want one for each Run", n)
	}
}

// TestRunRefused: what no waiting can mend is an error at once.
func TestRunRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	if err := d.Run(t.Context()); err == nil {
		t.Error("a dispatcher without handlers runs")
	}
	elsewhere := r.dispatcher(dispatcher.Config{Schema: "no such schema"})
	dispatcher.Handle(elsewhere, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
	if err := elsewhere.Run(t.Context()); err == nil {
		t.Error("a dispatcher without a schema runs")
	}
	unknown := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(unknown, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
	unknown.Configure("l", dispatcher.HandlerConfig{})
	if err := unknown.Run(t.Context()); err == nil {
		t.Error("a kind without a handler may be configured")
	}
}

// TestEndGrace: a second signal ends the grace.
func TestEndGrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{ShutdownGrace: time.Hour})
	dispatcher.Handle(d, "long", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "long"})[0]
	stop := r.start(d)
	r.awaitType(dispatcher.Started, id)
	d.EndGrace()
	d.EndGrace()
	stop()
	if state, attempt, note := r.fate(id); state != "live r-" || attempt != 0 {
		t.Errorf("%s after attempt %d (%s)", state, attempt, note)
	}
	for _, loop := range []dispatcher.Loop{dispatcher.LoopClaim, dispatcher.LoopFinish, dispatcher.LoopHeartbeat, dispatcher.LoopDue} {
		if d.Stats().Worked[loop].IsZero() {
			t.Errorf("loop %s has not worked: %v", loop, d.Stats().Worked)
		}
	}
}
