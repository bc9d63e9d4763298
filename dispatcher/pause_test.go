package dispatcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// starts are when handlers began, by the machine's clock, which is the
// database's too: both run on it.
type starts struct {
	mu sync.Mutex
	at map[int64][]time.Time // by job
	in map[string]time.Time  // the last one, by what the job is of
}

func (s *starts) note(job store.Job) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at, s.in = make(map[int64][]time.Time), make(map[string]time.Time)
	}
	s.at[job.ID] = append(s.at[job.ID], now)
	s.in[sideOf(job)] = now
}

func (s *starts) last(side string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in[side]
}

// sideOf tells the jobs that a pause is to cover from the others.
func sideOf(job store.Job) string {
	if job.Queue == "paused" || job.Tenant == "paused" || job.Kind == "paused" || job.Kind == "paused tx" {
		return "paused"
	}
	return "others"
}

// TestNothingStartsASecondAfterAPause, of any scope, under load: keyless jobs,
// lanes whose jobs hand over their slots, and transactional handlers. The others
// go on meanwhile, and after the resume everything runs.
func TestNothingStartsASecondAfterAPause(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]struct {
		job    store.NewJob
		scopes []store.Scope
	}{
		"queue":  {store.NewJob{Queue: "paused"}, []store.Scope{{Queue: "paused"}}},
		"kind":   {store.NewJob{Kind: "paused"}, []store.Scope{{Kind: "paused"}, {Queue: "default", Kind: "paused tx"}}},
		"tenant": {store.NewJob{Tenant: "paused"}, []store.Scope{{Tenant: "paused"}}},
		"key": {store.NewJob{Tenant: "paused", OrderingKey: "k"}, []store.Scope{
			{Queue: "default", Tenant: "paused", OrderingKey: "k"}, {Queue: "default", Tenant: "paused", OrderingKey: "k2"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newPauseRun(t).do(pause.job, pause.scopes)
		})
	}
}

type pauseRun struct {
	*rig
	store  *store.Store
	starts starts
	ids    []int64
}

func newPauseRun(t *testing.T) *pauseRun {
	p := &pauseRun{rig: newRig(t)}
	p.store = store.New(p.pool)
	queue := dispatcher.Queue{Concurrency: 8}
	d := p.dispatcher(dispatcher.Config{MaxConns: 12, Queues: map[string]dispatcher.Queue{"default": queue, "paused": queue}})
	work := func(ctx context.Context, job store.Job) error {
		p.starts.note(job)
		_, err := p.pool.Exec(ctx, "select pg_sleep(0.002)")
		return err
	}
	for _, kind := range []string{"k", "paused"} {
		dispatcher.Handle(d, kind, func(ctx context.Context, job dispatcher.Job[payload]) error { return work(ctx, job.Job) })
		dispatcher.HandleTx(d, kind+" tx", func(ctx context.Context, _ pgx.Tx, job dispatcher.Job[payload]) error { return work(ctx, job.Job) })
	}
	p.start(d)
	p.listening()
	return p
}

func (p *pauseRun) do(like store.NewJob, scopes []store.Scope) {
	ctx, stop := context.WithCancel(p.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { p.feed(ctx, like) })
	p.awaitStarts("paused", time.Time{})
	for _, scope := range scopes {
		if fresh, err := p.store.Pause(p.Context(), scope, store.PauseNote{}); err != nil || !fresh {
			p.Fatal(fresh, err)
		}
	}
	paused := testdb.Value[time.Time](p, p.db, "select clock_timestamp()")
	p.awaitStarts("others", paused.Add(1500*time.Millisecond))
	if late := p.starts.last("paused").Sub(paused); late > time.Second {
		p.Errorf("a handler began %v after the pause", late)
	}
	stop()
	feeding.Wait()
	for _, scope := range scopes {
		if r, err := p.store.Resume(p.Context(), scope); err != nil || !r.WasPaused {
			p.Fatal(r, err)
		}
	}
	p.until("not exists (select from lockstep.job)")
	if n := testdb.Value[int](p, p.db, "select count(*) from lockstep.finished_job where outcome = 'completed'"); n != len(p.ids) {
		p.Errorf("%d jobs completed of %d", n, len(p.ids))
	}
	if n := testdb.Value[int](p, p.db, "select count(*) from lockstep.finished_job where attempt <> 1"); n > 0 {
		p.Errorf("%d jobs used up attempts on the pause", n)
	}
}

// feed keeps a few hundred jobs there, half of them like the one that is to be
// paused, until ctx ends.
func (p *pauseRun) feed(ctx context.Context, like store.NewJob) {
	for n := 0; ctx.Err() == nil; n++ {
		var jobs []store.NewJob
		for i := range 20 {
			job := store.NewJob{Kind: "k"}
			if i%2 == 0 {
				job = like
				if job.Kind == "" {
					job.Kind = "k"
				}
			}
			if i%4 < 2 {
				job.Kind += " tx"
			}
			switch {
			case job.OrderingKey != "" && i%3 == 0:
				job.OrderingKey += "2"
			case job.OrderingKey == "" && i%3 > 0:
				job.OrderingKey = fmt.Sprint("lane ", i%3, sideOf(store.Job{Queue: job.Queue, Tenant: job.Tenant, Kind: job.Kind}))
			}
			jobs = append(jobs, job)
		}
		p.ids = append(p.ids, p.enqueue(jobs...)...)
		for ctx.Err() == nil && testdb.Value[int](p, p.db, "select count(*) from lockstep.job j where cardinality(lockstep.paused(array[j.id])) = 0") > 100 {
			<-time.After(5 * time.Millisecond) // the others are to be served
		}
	}
}

// awaitStarts waits for a handler of a side that began after a moment.
func (p *pauseRun) awaitStarts(side string, after time.Time) {
	p.Helper()
	for deadline := time.Now().Add(patience); !p.starts.last(side).After(after); {
		if time.Now().After(deadline) {
			p.Fatalf("none of the %s began after %v", side, after)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// TestATransactionThatWaitedForItsRunLockIsLookedAtAgain.
func TestATransactionThatWaitedForItsRunLockIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.HandleTx(d, "k", func(context.Context, pgx.Tx, dispatcher.Job[payload]) error { return nil })
	r.db.Exec(t, "begin; select pg_advisory_xact_lock(lockstep.run_lock('default', '', 'a', 0))")
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	r.start(d)
	r.listening()
	r.claimedLongAgo()
	r.givesBack(id, func() { r.db.Exec(t, "commit") })
}

// claimedLongAgo waits until the look of the one claim is too old to be relied on.
func (r *rig) claimedLongAgo() {
	r.Helper()
	watch := r.db.Conn(r)
	for late := false; !late; {
		if err := watch.QueryRow(r.Context(), "select coalesce(bool_or(claimed_at < clock_timestamp() - interval '600 ms' and attempt = 1), false) from lockstep.job").Scan(&late); err != nil {
			r.Fatal(err)
		}
	}
}

// givesBack pauses the kind of a job that is claimed, lets it go on, and sees
// that it is given back without a start, and runs after the resume.
func (r *rig) givesBack(id int64, goOn func()) {
	r.Helper()
	db := store.New(r.pool)
	if _, err := db.Pause(r.Context(), store.Scope{Kind: "k"}, store.PauseNote{}); err != nil {
		r.Fatal(err)
	}
	goOn()
	e := r.await("given back", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.JobID == id
	})
	if e.Outcome != store.Released {
		r.Errorf("recorded as %s", e.Outcome)
	}
	if state, attempt, note := r.fate(id); state != "live r-" || attempt != 0 || note != "paused before its handler began" {
		r.Errorf("%s after attempt %d: %s", state, attempt, note)
	}
	if _, err := db.Resume(r.Context(), store.Scope{Kind: "k"}); err != nil {
		r.Fatal(err)
	}
	r.await("completed", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.JobID == id && e.Outcome == store.Completed
	})
}

// TestAResumeIsPrompt: whatever was paused runs by its signal, without a poll, and
// all pages that a resume leaves are returned by the dispatchers.
func TestAResumeIsPrompt(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]store.Scope{
		"queue": {Queue: "default"}, "kind": {Kind: "k"}, "kind in a queue": {Queue: "default", Kind: "k"},
		"tenant": {Tenant: "t"}, "key": {Queue: "default", Tenant: "t", OrderingKey: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 50}}})
			dispatcher.Handle(d, "k", nop)
			db := store.New(r.pool)
			if _, err := db.Pause(t.Context(), scope, store.PauseNote{}); err != nil {
				t.Fatal(err)
			}
			n := 1
			if scope.Tenant != "" && scope.OrderingKey == "" {
				n = 1500
			}
			r.db.Exec(t, "insert into lockstep.job (kind, tenant, ordering_key) select 'k', 't', nullif($2::text, '') from generate_series(1, $1::int)", n, scope.OrderingKey)
			r.start(d)
			r.listening()
			if scope.Tenant != "" {
				r.until("count(*) = $1 from lockstep.job where hold = 'p'", n)
			}
			if got, err := db.Resume(t.Context(), scope); err != nil || got.More != (n > 1000) {
				t.Fatal(got, err)
			}
			r.until("not exists (select from lockstep.job)")
			if lost := d.Stats().Queues["default"].LostSignals; lost > 0 {
				t.Errorf("%d jobs were found by nothing but time", lost)
			}
		})
	}
}
