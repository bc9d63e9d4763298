package dispatcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestLeaseCantBeRenewed: cut off from the database, a handler's context ends
// before its lease does; reconnected, the dispatcher goes on by itself, and no
// attempt is used up.
func TestLeaseCantBeRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	d := r.dispatcherOn(pool, dispatcher.Config{Lease: 6 * time.Second})
	d.SetCallTimeout(3 * time.Second)
	type end struct {
		cause error
		left  time.Duration
	}
	started, ends := make(chan struct{}, 2), make(chan end, 1)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		started <- struct{}{}
		if len(ends) == 1 {
			return nil
		}
		<-ctx.Done()
		until, _ := dispatcher.LeaseEnd(ctx)
		ends <- end{context.Cause(ctx), time.Until(until)}
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	r.start(d)
	receive(t, "the handler", started)
	proxy.Set(faultproxy.BlackHole)
	e := <-ends
	ends <- e
	if !errors.Is(e.cause, dispatcher.ErrLeaseLost) || e.left <= 0 {
		t.Errorf("the context ended %v before the lease, with %v", e.left, e.cause)
	}
	proxy.Set(faultproxy.Fault{})
	receive(t, "the handler, again", started)
	r.await("completed", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.Outcome == store.Completed
	})
	if state, _, _ := r.fate(id); state != "completed" {
		t.Errorf("%s, want completed", state)
	}
}

// TestLateClaimIsNotRun: a claim was under way for longer than its lease, which
// may have begun when it was sent. Its handler does not start, and no attempt is
// used up.
func TestLateClaimIsNotRun(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Lease: lease, Poll: 20 * time.Millisecond})
	d.SetCallTimeout(time.Minute)
	left := make(chan time.Duration, 2)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		until, _ := dispatcher.LeaseEnd(ctx)
		left <- time.Until(until)
		return nil
	})
	blocker := r.db.Conn(t)
	if _, err := blocker.Exec(t.Context(), "begin; lock table lockstep.job in exclusive mode"); err != nil {
		t.Fatal(err)
	}
	enqueued, err := store.New(blocker).Enqueue(t.Context(), store.NewJob{Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	r.start(d)
	r.until(`exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
		and query like '%.claim(%' and query_start < clock_timestamp() - $1::interval)`, lease)
	if _, err := blocker.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	r.await("given back", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.Outcome == store.Released
	})
	if l := receive(t, "a handler", left); l <= 0 {
		t.Errorf("a handler started %v after the end of its lease", -l)
	}
	r.await("completed", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.Outcome == store.Completed
	})
	if state, attempt, _ := r.fate(enqueued.ID); state != "completed" || attempt != 1 {
		t.Errorf("%s in attempt %d, want completed in 1", state, attempt)
	}
}

// TestC83HeartbeatsNeedNoPool: handlers hold every connection of the pool for
// two leases, and no lease is lost.
func TestC83HeartbeatsNeedNoPool(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	r := newRig(t)
	cfg := r.pool.Config()
	cfg.MaxConns = 4
	pool := newPool(t, cfg)
	d := r.dispatcherOn(pool, dispatcher.Config{Lease: lease, Queues: map[string]dispatcher.Queue{"default": {Concurrency: 8}}})
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		_, err = conn.Exec(ctx, "select pg_sleep($1)", 2*lease.Seconds())
		return err
	})
	jobs := make([]store.NewJob, 8)
	for i := range jobs {
		jobs[i].Kind = "k"
	}
	r.enqueue(jobs...)
	r.runUntilIdle(d)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where attempt = 1"); n != 8 {
		t.Errorf("%d jobs were completed in their first attempt, want 8", n)
	}
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.LeaseLost }); n != 0 {
		t.Errorf("%d leases lost", n)
	}
}

// TestTakenAway: when the database says that the job is somebody else's, the
// handler is told, and what it still does changes nothing.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Heartbeat: 50 * time.Millisecond})
	started, causes := make(chan struct{}), make(chan error, 1)
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil // a late success
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	receive(t, "the handler", started)
	r.db.Exec(t, `update lockstep.job set worker = gen_random_uuid(), fence = fence + 1000, lease_until = clock_timestamp() + interval '1 hour'`)
	if cause := receive(t, "the cause", causes); !errors.Is(cause, dispatcher.ErrLeaseLost) {
		t.Errorf("the context ended with %v", cause)
	}
	if e := r.awaitType(dispatcher.Ineffective, id); e.Outcome != store.Completed {
		t.Errorf("ineffective was %s", e.Outcome)
	}
	if state, _, _ := r.fate(id); state != "live r-" {
		t.Errorf("%s: the late finish changed something", state)
	}
}

// TestLeaseEndIsATimer: a job whose worker died without a word runs when its
// lease ends, without a poll or a signal.
func TestLeaseEndIsATimer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	s := store.New(r.pool)
	dead := store.NewWorkerID()
	if _, err := s.Register(t.Context(), store.Registration{Worker: dead, Name: "dead", Queues: []string{"default"}, Kinds: []string{"k"}, Lease: time.Second}); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), store.ClaimArgs{Worker: dead, Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: time.Second})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatal(claimed, err)
	}
	r.start(d)
	r.awaitType(dispatcher.Recorded, id)
	stats := d.Stats().Queues["default"]
	if stats.Looks[dispatcher.ByTimer].Jobs != 1 || stats.LostSignals != 0 {
		t.Errorf("%+v", stats)
	}
	late := testdb.Value[time.Duration](t, r.db, "select claimed_at - (select max(claimed_at) from lockstep.attempt) - interval '1 second' from lockstep.finished_job")
	if late > time.Second {
		t.Errorf("claimed %v after the lease's end", late)
	}
}

// TestLeaseOfAWaitingOutcome: the job is not given away while its outcome
// waits for a row that somebody holds.
func TestLeaseOfAWaitingOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Lease: time.Second})
	held := make(chan struct{})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { <-held; return nil })
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	r.awaitType(dispatcher.Started, id)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from lockstep.job for key share"); err != nil {
		t.Fatal(err)
	}
	close(held)
	r.until("lease_until > claimed_at + interval '2 seconds' from lockstep.job")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitType(dispatcher.Recorded, id)
	if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 {
		t.Errorf("%s in attempt %d", state, attempt)
	}
}

// TestBusyHeartbeat: a row that somebody holds for a moment is tried again, and
// nothing is lost.
func TestBusyHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Heartbeat: 50 * time.Millisecond})
	release := make(chan struct{})
	dispatcher.Handle(d, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		<-release
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	r.awaitType(dispatcher.Started, id)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var until string
	if err := tx.QueryRow(t.Context(), "select lease_until::text from lockstep.job for update").Scan(&until); err != nil {
		t.Fatal(err)
	}
	// Another sign of life shows that a beat has met with the lock.
	seen := testdb.Value[string](t, r.db, "select seen_at::text from lockstep.dispatcher")
	r.until("seen_at::text <> $1 from lockstep.dispatcher", seen)
	seen = testdb.Value[string](t, r.db, "select seen_at::text from lockstep.dispatcher")
	r.until("seen_at::text <> $1 from lockstep.dispatcher", seen)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("lease_until::text <> $1 from lockstep.job", until)
	close(release)
	r.awaitType(dispatcher.Recorded, id)
	if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 {
		t.Errorf("%s in attempt %d", state, attempt)
	}
}
