package producers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// C71: however many attempts a row says, and whatever the factor, a failure is
// recorded and the delay is the cap.
func TestC71BackoffNeverOverflows(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	const limit = time.Hour
	for _, factor := range []float64{2, 10, 1000} {
		for _, attempts := range []int{16, 64, 310, 1716, 32_767, 1<<31 - 1} {
			name := fmt.Sprintf("factor %v, attempt %d", factor, attempts)
			if _, err := s.SetQueue(t.Context(), name, store.QueuePolicy{BackoffFactor: factor}); err != nil {
				t.Fatal(err)
			}
			job := failAt(t, db, s, name, attempts)
			status, err := s.JobStatus(t.Context(), job.ID)
			if err != nil {
				t.Fatal(err)
			}
			if status.Error != "" && status.State != store.StateDead || attempts >= 32_767 != (status.State == store.StateDead) {
				t.Errorf("%s: the job is %s", name, status.State)
			}
			if n := testdb.Value[int](t, db, "select count(*) from lockstep.attempts where job_id = $1 and error = 'it failed'", job.ID); n != 1 {
				t.Errorf("%s: %d failures are recorded", name, n)
			}
			if wait := status.RunAt.Sub(job.ClaimedAt); status.State == store.StateRetrying && (wait < limit*8/10 || wait > limit+time.Minute) {
				t.Errorf("%s: the next attempt is in %v, want about %v", name, wait, limit)
			}
			backoff := testdb.Value[time.Duration](t, db, "select lockstep.backoff($1, $2)", name, attempts)
			if backoff < limit*8/10 || backoff > limit {
				t.Errorf("%s: the backoff is %v, want the cap of %v less its jitter", name, backoff, limit)
			}
		}
	}
}

// Jobs that have come to the cap do not come back together, as those that
// killed their worker together would: attempts 1 and 4 wait 1 s and 8 s, 5 and
// later ones are at the cap of 10 s.
func TestBackoffSpreadsAtTheCap(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.set_queue('q', backoff_base => '1 s', backoff_factor => 2, backoff_cap => '10 s')")
	for attempt, spread := range map[int][2]float64{1: {0.8, 1.2}, 4: {6.4, 9.6}, 5: {8, 10}, 1000: {8, 10}} {
		const draws = 200
		if n := testdb.Value[int](t, db, `select count(distinct d.s) from generate_series(1, $1) i,
			lateral (select extract(epoch from lockstep.backoff('q', $2 + 0 * i))::float8 as s) d where d.s between $3 and $4`,
			draws, attempt, spread[0], spread[1]); n < draws*9/10 {
			t.Errorf("attempt %d: %d of %d delays differ and are within %v s", attempt, n, draws, spread)
		}
	}
}

// failAt claims a job of a new queue, sets its attempts by hand, and fails it.
func failAt(t *testing.T, db *testdb.DB, s *store.Store, queue string, attempts int) store.Job {
	t.Helper()
	if _, err := s.Enqueue(t.Context(), store.NewJob{Kind: "k", Queue: queue, MaxAttempts: 32_767}); err != nil {
		t.Fatal(err)
	}
	worker := store.NewWorkerID()
	db.Exec(t, "update lockstep.job set attempt = $2 where queue = $1", queue, attempts-1)
	claimed, err := s.Claim(t.Context(), store.ClaimArgs{Worker: worker, Queue: queue, Kinds: []string{"k"}, Max: 1, Lease: time.Minute})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatal(claimed, err)
	}
	job := claimed.Jobs[0]
	if job.Attempt != attempts {
		t.Errorf("attempt %d, want %d", job.Attempt, attempts)
	}
	answers, err := s.Finish(t.Context(), store.FinishArgs{Worker: worker, Lease: time.Minute, Reports: []store.Finish{
		{Claim: store.Claim{ID: job.ID, Fence: job.Fence}, Outcome: store.Failed, Error: "it failed"},
	}})
	if err != nil || answers[job.ID].State != store.FinishDone {
		t.Fatal(answers, err)
	}
	return job
}
