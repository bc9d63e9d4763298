package dispatcher_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC24Outage: handlers end, half of them with errors, while the database is
// away. When it is back each outcome is recorded, in the same attempt.
func TestC24Outage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	d := r.dispatcherOn(pool, dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 20}}})
	gate := make(chan struct{})
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		<-gate
		if job.Payload.N%2 == 0 {
			return dispatcher.RetryAfter(time.Hour, fmt.Errorf("own error %d", job.Payload.N))
		}
		return nil
	})
	var jobs []store.NewJob
	for i := range 20 {
		key := ""
		if i%3 == 0 {
			key = fmt.Sprint(i)
		}
		jobs = append(jobs, store.NewJob{Kind: "k", OrderingKey: key, Payload: payload{i}})
	}
	ids := r.enqueue(jobs...)
	r.start(d)
	r.await("started", 20, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })
	proxy.Set(faultproxy.Fault{Refuse: true})
	proxy.Reset()
	close(gate)
	r.await("ended", 20, func(e dispatcher.Event) bool { return e.Type == dispatcher.Ended })
	r.await("finish failed", 2, func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "finish" })
	proxy.Set(faultproxy.Fault{})
	r.awaitRecorded(20)
	for i, id := range ids {
		state, attempt, note := r.fate(id)
		want, error := "completed", ""
		if i%2 == 0 {
			want, error = "live b-", fmt.Sprintf("own error %d", i)
		}
		if state != want || attempt != 1 || note != error {
			t.Errorf("job %d: %s in attempt %d, %q; want %s in 1, %q", i, state, attempt, note, want, error)
		}
	}
}

// TestBackPressure: while outcomes can't be recorded, few are claimed; and none
// is lost.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	const concurrency, all = 2, 50
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: concurrency}}})
	var ran atomic.Int32
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error {
		ran.Add(1)
		return nil
	})
	jobs := make([]store.NewJob, all)
	for i := range jobs {
		jobs[i].Kind = "k"
	}
	r.enqueue(jobs...)
	const finish = "lockstep.finish(uuid, bigint[], bigint[], text[], jsonb[], text[], interval[], text[], interval, boolean)"
	r.db.Exec(t, "alter function "+finish+" rename to finish_not")
	r.start(d)
	r.await("finish failed", 5, func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "finish" })
	if n := ran.Load(); n > 3*concurrency {
		t.Errorf("%d jobs ran whose outcomes are not recorded", n)
	}
	r.db.Exec(t, "alter function lockstep.finish_not(uuid, bigint[], bigint[], text[], jsonb[], text[], interval[], text[], interval, boolean) rename to finish")
	r.awaitRecorded(all)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where attempt = 1"); n != all || ran.Load() != all {
		t.Errorf("%d jobs completed in their first attempt, with %d runs, want %d", n, ran.Load(), all)
	}
}

// TestStartsBeforeTheDatabase: a dispatcher waits for a database that is away.
func TestStartsBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	proxy.Set(faultproxy.Fault{Refuse: true})
	d := r.dispatcherOn(pool, dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.start(d)
	r.await("register failed", 2, func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "register" })
	proxy.Set(faultproxy.Fault{})
	r.awaitType(dispatcher.Recorded, id)
}
