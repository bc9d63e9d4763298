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
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC88_RunningJobsDeletedCancelledEdited by SQL, 100 of them: their workers
// warn and nothing breaks. A running attempt sees no edit, and the lanes of the
// deleted go on.
func TestC88_RunningJobsDeletedCancelledEdited(t *testing.T) {
	t.Parallel()
	const running = 100
	r := newRig(t)
	var log syncBuffer
	d := r.dispatcher(dispatcher.Config{
		Heartbeat: 100 * time.Millisecond, Queues: map[string]dispatcher.Queue{"default": {Concurrency: running}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	release := make(chan struct{})
	var edits atomic.Int64
	dispatcher.Handle(d, "k", func(ctx context.Context, job dispatcher.Job[payload]) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		if job.Kind != "k" || job.Payload.N != 7 {
			edits.Add(1)
		}
		return context.Cause(ctx)
	})
	var jobs []store.NewJob
	for i := range running {
		key := fmt.Sprint(i)
		jobs = append(jobs, store.NewJob{Kind: "k", OrderingKey: key, Payload: payload{7}}, store.NewJob{Kind: "k", OrderingKey: key, Payload: payload{7}})
	}
	ids := r.enqueue(jobs...)
	r.start(d)
	r.await("started", running, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })

	var groups [3][]int64 // the heads: to delete, to cancel, to edit
	for i := range running {
		groups[i%3] = append(groups[i%3], ids[2*i])
	}
	r.db.Exec(t, "delete from lockstep.job where id = any ($1)", groups[0])
	r.until("bool_and(lockstep.cancel(id) in ('requested', 'ended')) from unnest($1::bigint[]) id", groups[1]) // busy while a heartbeat has the row
	r.db.Exec(t, `update lockstep.job set payload = '{"n": 8}', priority = 9, max_attempts = 1, run_at = run_at + interval '1 hour', headers = '{"a": "b"}'
		where id = any ($1)`, groups[2])
	r.await("told that the lease is lost", len(groups[0]), func(e dispatcher.Event) bool { return e.Type == dispatcher.LeaseLost })
	r.await("told of the cancel", len(groups[1]), func(e dispatcher.Event) bool { return e.Type == dispatcher.CancelAsked })
	r.db.Exec(t, "select lockstep.sweep()") // as any dispatcher does now and then
	close(release)
	r.await("recorded", 2*running-len(groups[0]), func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded })

	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where outcome = 'completed' and attempt = 1"); n != running+len(groups[2]) {
		t.Errorf("%d jobs were completed in their first attempt, want %d", n, running+len(groups[2]))
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where outcome = 'cancelled' and id = any ($1)", groups[1]); n != len(groups[1]) {
		t.Errorf("%d jobs were cancelled, want %d", n, len(groups[1]))
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
	if n := edits.Load(); n != 0 {
		t.Errorf("%d attempts saw an edit", n)
	}
	if text := log.String(); strings.Contains(text, "level=ERROR") || strings.Count(text, string(dispatcher.LeaseLost)) < len(groups[0]) {
		t.Errorf("the log has errors, or does not warn of each deleted job:\n%s", text)
	}
}
