package dispatcher_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC24Outage: handlers end, half of them with errors, while the database is
// away. Their errors are in the log at once, the reports are tried again at growing
// intervals, and when the database is back each outcome is recorded, in the same
// attempt, and new jobs are claimed.
func TestC24Outage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	var log syncBuffer
	d := r.dispatcherOn(pool, dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 20}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
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
	stop := r.start(d)
	r.await("started", 20, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })
	proxy.Set(faultproxy.Fault{Refuse: true})
	proxy.Reset()
	close(gate)
	r.await("ended", 20, func(e dispatcher.Event) bool { return e.Type == dispatcher.Ended })
	failed := func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "finish" }
	r.await("finish failed", 1, failed)
	began := time.Now()
	r.await("finish failed", 8, failed)
	// 20 ms, doubled each time, give or take a half, and two calls may fail at once.
	if took, least := time.Since(began), 200*time.Millisecond; took < least {
		t.Errorf("7 more reports failed within %v, want a backoff of at least %v in all", took, least)
	}
	ids = append(ids, r.enqueue(store.NewJob{Kind: "k", Payload: payload{21}})...) // the producer's way is another

	proxy.Set(faultproxy.Fault{})
	back := time.Now()
	r.awaitType(dispatcher.Started, ids[20]) // within 30 s, or it fails
	t.Logf("the first claim came %v after the database", time.Since(back))
	r.awaitRecorded(21)
	stop()
	for i := 0; i < 20; i += 2 {
		if !strings.Contains(log.String(), fmt.Sprintf(`"own error %d"`, i)) {
			t.Errorf("the log does not tell of the error of handler %d:\n%s", i, log.String())
		}
	}
	for i, id := range ids[:20] {
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
