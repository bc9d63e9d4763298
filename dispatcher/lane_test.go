package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestHandOver: while nobody else's turn it is, a lane's jobs follow each other
// in one slot without a claim between them.
func TestHandOver(t *testing.T) {
	t.Parallel()
	const lane = 50
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	var order []int64
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		order = append(order, job.ID)
		return nil
	})
	jobs := make([]store.NewJob, lane)
	for i := range jobs {
		jobs[i] = store.NewJob{Kind: "k", OrderingKey: "a"}
	}
	ids := r.enqueue(jobs...)
	r.runUntilIdle(d)
	if !slices.Equal(order, ids) {
		t.Errorf("ran in the order %v, want %v", order, ids)
	}
	claims := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked && e.Jobs > 0 })
	if claims > lane/5 {
		t.Errorf("%d claims for %d jobs of one lane", claims, lane)
	}
}

// TestC33OneAtATime: twelve jobs of one key, eight slots.
func TestC33OneAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 8}}})
	running := make(chan struct{}, 1)
	var order []int
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		select {
		case running <- struct{}{}:
		default:
			t.Error("two at a time")
		}
		defer func() { <-running }()
		order = append(order, job.Payload.N)
		if job.Attempt == 1 && job.Payload.N%4 == 0 {
			return dispatcher.RetryAfter(5*time.Millisecond, errFailed)
		}
		return nil
	})
	var jobs []store.NewJob
	for i := range 12 {
		jobs = append(jobs, store.NewJob{Kind: "k", OrderingKey: "a", Payload: payload{i}})
	}
	r.enqueue(jobs...)
	r.start(d)
	r.await("completed", 12, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Outcome == store.Completed })
	if want := []int{0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11}; !slices.Equal(order, want) {
		t.Errorf("ran in the order %v, want %v", order, want)
	}
}

// TestRunUntilIdle works off lanes, what handlers enqueue, and what falls due
// meanwhile; it leaves what is for later, and for others.
func TestRunUntilIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(ctx context.Context, job dispatcher.Job[payload]) error {
		if job.Payload.N == 0 {
			return nil
		}
		_, err := store.New(r.pool).Enqueue(ctx, store.NewJob{Kind: "k", OrderingKey: "a", Payload: payload{job.Payload.N - 1}})
		return err
	})
	for i := range 5 {
		r.enqueue(store.NewJob{Kind: "k", Payload: payload{3}, OrderingKey: fmt.Sprint(i)})
	}
	others := r.enqueue(store.NewJob{Kind: "k", Delay: time.Hour}, store.NewJob{Kind: "other"}, store.NewJob{Kind: "k", Queue: "other"})
	r.runUntilIdle(d)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job"); n != 5*4 {
		t.Errorf("%d jobs ran, want 20", n)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job where id = any ($1)", others); n != 3 {
		t.Errorf("%d jobs are left, want 3", n)
	}
	r.runUntilIdle(d) // nothing to do
}

// TestRunUntilIdleBesideALockedJob: what another transaction holds is waited for,
// and not asked for without a pause.
func TestRunUntilIdleBesideALockedJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from lockstep.job where id = $1 for update", id); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	r.runUntilIdle(d)
	if state, _, note := r.fate(id); state != "completed" {
		t.Errorf("the job is %s (%s)", state, note)
	}
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked }); n > 50 {
		t.Errorf("%d looks in a second", n)
	}
}

// TestReleasedJobRunsElsewhere: what a dispatcher gives back at its end, another
// one starts by the signal.
func TestReleasedJobRunsElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.dispatcher(dispatcher.Config{ShutdownGrace: -1})
	started := make(chan struct{})
	dispatcher.Handle(first, "k", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	stop := r.start(first)
	receive(t, "the handler", started)
	second := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(second, "k", nop)
	r.start(second)
	r.await("both listening", 2, func(e dispatcher.Event) bool { return e.Type == dispatcher.Listening })
	stop()
	r.await("completed", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.JobID == id && e.Outcome == store.Completed
	})
	if _, attempt, _ := r.fate(id); attempt != 1 {
		t.Errorf("completed in attempt %d, want 1", attempt)
	}
	q := second.Stats().Queues["default"]
	if q.Looks[dispatcher.ByPoll].Jobs+q.Looks[dispatcher.ByTimer].Jobs+q.LostSignals != 0 {
		t.Errorf("%+v", q)
	}
}
