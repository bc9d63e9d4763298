package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/store"
)

// start starts n workers.
func start(t *testing.T, s *puppet.Scene, n int, config puppet.Config) []*workerproc.Process {
	t.Helper()
	all := make([]*workerproc.Process, n)
	for i := range all {
		config.Name = fmt.Sprint("worker ", i)
		all[i] = s.Launch(t, config)
	}
	for _, process := range all {
		process.Await(t, "ready")
	}
	return all
}

// die makes dead letters of n jobs over so many lanes, in turn.
func die(t *testing.T, s *puppet.Scene, n, lanes int) {
	t.Helper()
	s.Exec(t, `insert into lockstep.job (kind, ordering_key) select 'k', 'lane ' || i % $2::int from generate_series(1, $1::int) i`, n, lanes)
	db, worker := store.New(s.Conn(t)), store.NewWorkerID()
	for testdb.Value[bool](t, s.DB, "select exists (select from lockstep.job)") {
		claimed, err := db.Claim(t.Context(), store.ClaimArgs{Worker: worker, Queue: "default", Kinds: []string{"k"}, Max: lanes, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		args := store.FinishArgs{Worker: worker, Lease: time.Minute}
		for _, job := range claimed.Jobs {
			args.Reports = append(args.Reports, store.Finish{Claim: store.Claim{ID: job.ID, Fence: job.Fence}, Outcome: store.Dead, Error: "out of order"})
		}
		if _, err := db.Finish(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
}

// Three processes replay 500 letters of 20 lanes at 50 a second, and one of them
// is killed and started again halfway.
func TestReplayKeepsRateAndOrder(t *testing.T) {
	t.Parallel()
	const letters, lanes, rate = 500, 20, 50
	s := puppet.NewScene(t)
	die(t, s, letters, lanes)
	expect(t, s, letters, "dead letters", "count(*)::int from lockstep.dead_job")
	config := puppet.Config{Kinds: []string{"k"}, Lease: 2 * time.Second}
	workers := start(t, s, 3, config)

	stalled := stalls(t, s)
	id, err := store.New(s.Conn(t)).StartReplay(t.Context(), store.NewReplay{Rate: rate, Filter: store.DeadFilter{Error: "%order"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, "(select replayed > $1 from lockstep.replays where id = $2)", letters/2, id)
	workers[0].Kill(t)
	start(t, s, 1, config)
	s.Await(t, "(select state = 'done' from lockstep.replays where id = $1)", id)
	lost := stalled()
	s.Await(t, "not exists (select from lockstep.job)")

	expect(t, s, "500|0|0", "replayed, kept and remaining", "concat_ws('|', replayed, kept, remaining) from lockstep.replays")
	expect(t, s, letters, "jobs completed", "count(*)::int from lockstep.finished_job where outcome = 'completed'")
	expect(t, s, letters, "attempts before", "count(*)::int from lockstep.attempts where error = 'out of order'")
	expect(t, s, 0, "jobs that started before an earlier one of their lane", `count(*)::int from (
		select j.job, lag(j.job) over (partition by f.ordering_key order by j.seq) as before
		  from journal j join lockstep.finished_job f on f.id = j.job where j.what = 'start') o where before > job`)

	at := times(t, s, "select run_at from lockstep.finished_job order by 1")
	took := at[len(at)-1].Sub(at[0])
	measured, densest := (letters-1)/took.Seconds(), most(at)
	t.Logf("%.2f a second over %v, at most %d in one; the machine stood still for %v", measured, took, densest, lost)
	want := time.Duration(letters-1) * time.Second / rate
	if took < want*95/100 || densest > rate*105/100+1 {
		t.Errorf("replayed too fast")
	}
	if took > want*105/100+3*lost {
		t.Errorf("replayed too slowly")
	}
}

// TestC75DeadLetterReplay lets 20 jobs time out until they are dead, and again
// when they are replayed, two a second.
func TestC75DeadLetterReplay(t *testing.T) {
	t.Parallel()
	const jobs, attempts, rate, timeout = 20, 3, 2, 200 * time.Millisecond
	s := puppet.NewScene(t)
	s.Exec(t, "select lockstep.set_queue('default', backoff_base => '0')")
	config := puppet.Config{Kinds: []string{"k"}, Concurrency: jobs, Timeout: timeout, Lease: 2 * time.Second}
	workers := start(t, s, 3, config)
	for range jobs {
		s.Enqueue(t, puppet.Job{Kind: "k", MaxAttempts: attempts, Script: puppet.Script{"": puppet.Hold()}})
	}
	s.Await(t, "(select count(*) = $1 from lockstep.dead_job)", jobs)
	s.Await(t, "(select max(died_at) + $1 < clock_timestamp() from lockstep.dead_job)", timeout)

	id, err := store.New(s.Conn(t)).StartReplay(t.Context(), store.NewReplay{Rate: rate, Filter: store.DeadFilter{Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, "(select replayed >= $1 from lockstep.replays where id = $2)", jobs/2, id)
	workers[0].Kill(t)
	start(t, s, 1, config)
	s.Await(t, "(select state = 'done' and replayed = $1 from lockstep.replays where id = $2)", jobs, id)
	s.Await(t, "(select count(*) = $1 from lockstep.dead_job)", jobs)

	expect(t, s, true, "full budgets", "bool_and(attempt = $1 and max_attempts = $1) from lockstep.dead_job", attempts)
	expect(t, s, jobs, "jobs with all attempts on record", `count(*)::int from (
		select job_id from lockstep.attempts group by 1 having count(*) >= $1 and count(distinct fence) = count(*)) a`, 2*attempts)
	at := times(t, s, "select pg_xact_commit_timestamp(enqueued_xid::xid) from lockstep.dead_job order by 1")
	t.Logf("%.2f a second, at most %d in one", (jobs-1)/at[len(at)-1].Sub(at[0]).Seconds(), most(at))
	for i := 1; i < len(at); i++ {
		if took := at[i].Sub(at[0]); took < time.Duration(i)*time.Second/rate-100*time.Millisecond { // a commit takes its time
			t.Errorf("%d letters within %v of the first", i, took)
		}
	}
}
