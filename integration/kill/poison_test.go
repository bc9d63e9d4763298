package kill

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// quicker shortens the backoff, in which suspects wait for their next attempt.
const quicker = "insert into lockstep.queue (name, backoff_base, backoff_cap) values ('default', '2 seconds', '8 seconds')"

// TestPoisonSparesItsNeighbours has one job kill its worker at every start, in
// one batch with 49 that do no harm and have no more attempts than it.
func TestPoisonSparesItsNeighbours(t *testing.T) {
	t.Parallel()
	const innocents, attempts = 49, 5
	s := puppet.NewScene(t)
	s.Exec(t, quicker)
	s.Exec(t, `insert into lockstep.job (kind, max_attempts, payload)
		select 'k', $1, case when n = 20 then $2::jsonb else $3 end from generate_series(0, $4) n`,
		attempts, puppet.Script{"": puppet.Kill()}, puppet.Script{"": puppet.Work(20 * time.Millisecond)}, innocents)

	died := supervise(t, s, 1, puppet.Config{Kinds: []string{"k"}, Concurrency: innocents + 1, Lease: time.Second})
	if died != attempts {
		t.Errorf("workers died %d times, want %d", died, attempts)
	}
	expect(t, s, "worker lost", "the reason of the only dead letter", "string_agg(error, ', ') from lockstep.dead_jobs")
	expect(t, s, attempts, "starts of the poison", "count(*) from journal j join lockstep.dead_jobs d on d.id = j.job where j.what = 'start'")
	expect(t, s, innocents, "innocents completed", "count(*) from lockstep.jobs where state = 'completed'")
	t.Log("attempts that the innocents needed: " + testdb.Value[string](t, s.DB, `
		select string_agg(format('%s × %s', n, attempt), ', ' order by attempt)
		  from (select attempt, count(*) as n from lockstep.finished_job group by 1) a`))
}

// TestC74PoisonJobs has several workers under a supervisor, and jobs that end
// them from outside and from inside.
func TestC74PoisonJobs(t *testing.T) {
	t.Parallel()
	const attempts = 3
	s := puppet.NewScene(t)
	s.Exec(t, quicker)
	for _, act := range []puppet.Act{puppet.Kill(), puppet.Overflow()} {
		s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: act.Do, MaxAttempts: attempts, Script: puppet.Script{"": act}})
		s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: act.Do}) // the lane goes on after it
	}
	died := supervise(t, s, 3, puppet.Config{Kinds: []string{"k"}, Lease: time.Second})
	t.Logf("workers died %d times", died)
	expect(t, s, 2, "dead letters", "count(*) from lockstep.dead_jobs where error = 'worker lost' and attempt = $1", attempts)
	expect(t, s, 2, "jobs completed behind them", "count(*) from lockstep.jobs where state = 'completed'")
	expect(t, s, 2*attempts, "lost attempts", "count(*) from lockstep.attempt where outcome = 'lost'")
	// A worker may be ended before its other handler has written down its start.
	expect(t, s, true, "no job started more often", "bool_and(n <= $1) from (select count(*) n from journal where what = 'start' group by job) starts", attempts)
}

// supervise keeps n workers running until no job is left, and returns how many
// times one died.
func supervise(t *testing.T, s *puppet.Scene, n int, config puppet.Config) (died int) {
	t.Helper()
	workers := make([]*workerproc.Process, n)
	for i := range workers {
		workers[i] = s.Launch(t, config)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for testdb.Value[bool](t, s.DB, "select exists (select from lockstep.job)") {
		for i, worker := range workers {
			select {
			case <-worker.Done():
				died++
				workers[i] = s.Launch(t, config)
			default:
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after a minute and %d dead workers jobs are left\n%s", died, s.Journal(t))
		}
	}
	return died
}
