package prompt

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestPrompt is one system that lives through everything that lets a job run:
// two or three worker processes, jobs enqueued by plain INSERTs of another
// session, and listeners that are cut off five times.
func TestPrompt(t *testing.T) {
	t.Parallel()
	s := &system{Scene: puppet.NewScene(t)}
	yardstick := layYardstick(t, s.Scene)
	s.Exec(t, "create table cut (at timestamptz)")
	s.Start(t, puppet.Config{Name: "a", Kinds: []string{"any", "A"}})
	s.Start(t, puppet.Config{Name: "b", Kinds: []string{"any", "B"}})

	s.insertsDueNow(t) // two cuts
	s.cut(t)
	s.scheduledIntoAnIdleSystem(t) // one
	s.cut(t)
	s.laneOfTwoKinds(t)
	s.releasedByAStoppedWorker(t)
	s.retryOfAStoppedWorker(t)
	s.leaseOfAKilledWorker(t)

	machine := yardstick.read(t)
	s.report(t, machine)
	s.reconnects(t, machine, 5)
	s.expectNoPoll(t)
}

// system is the scene, and what was measured in it.
type system struct {
	*puppet.Scene
	phases []phase
}

// insertsDueNow inserts 200 jobs, half of them keyed, and has the listeners cut
// off twice while it goes on.
func (s *system) insertsDueNow(t *testing.T) {
	cutter := s.Conn(t)
	cuts := make(chan error, 2)
	jobs := make([]int64, 200)
	pause := time.NewTicker(8 * time.Millisecond)
	defer pause.Stop()
	for i := range jobs {
		if i == 60 || i == 140 {
			s.awaitListeners(t)
			go func() { cuts <- cutOff(t.Context(), cutter) }()
		}
		job := puppet.Job{Kind: "any"}
		if i%2 == 0 {
			job.OrderingKey = fmt.Sprint("lane ", i)
		}
		jobs[i] = s.Enqueue(t, job)
		<-pause.C
	}
	for range cap(cuts) {
		if err := <-cuts; err != nil {
			t.Fatal(err)
		}
	}
	s.AwaitCompleted(t, jobs...)
	s.measure(t, "inserted, due now", byCommit, jobs)
}

// scheduledIntoAnIdleSystem has nothing else going on when jobs fall due, and
// the listeners cut off in the middle of it.
func (s *system) scheduledIntoAnIdleSystem(t *testing.T) {
	jobs := make([]int64, 20)
	for i := range jobs {
		jobs[i] = s.Enqueue(t, puppet.Job{Kind: "any", Delay: time.Second + rand.N(4*time.Second)})
	}
	s.AwaitCompleted(t, jobs[0])
	s.cut(t)
	s.AwaitCompleted(t, jobs...)
	s.measure(t, "scheduled 1 to 5 s ahead", byRunAt, jobs)
}

// laneOfTwoKinds has each worker wait for the other's job.
func (s *system) laneOfTwoKinds(t *testing.T) {
	jobs := make([]int64, 40)
	for i := range jobs {
		jobs[i] = s.Enqueue(t, puppet.Job{Kind: []string{"A", "B"}[i%2], OrderingKey: "alternating"})
	}
	s.AwaitCompleted(t, jobs...)
	s.measure(t, "promoted for the other worker", byPromotion, jobs)
}

// releasedByAStoppedWorker ends a worker by SIGTERM while it runs five jobs.
func (s *system) releasedByAStoppedWorker(t *testing.T) {
	x := s.Start(t, puppet.Config{Name: "x", Kinds: []string{"any"}, Grace: 100 * time.Millisecond})
	jobs := s.runIn(t, "x", 5, puppet.Job{Kind: "any", Script: puppet.Script{"x": puppet.Hold()}})
	x.Signal(t, syscall.SIGTERM)
	if code := x.Wait(t); code != 0 {
		t.Errorf("a worker that was asked to end did so with exit code %d", code)
	}
	s.AwaitCompleted(t, jobs...)
	s.measure(t, "released", byRelease, jobs)
}

// retryOfAStoppedWorker ends a worker after it has recorded that its jobs are
// to be tried again, at a time when the others have nothing to look for.
func (s *system) retryOfAStoppedWorker(t *testing.T) {
	x := s.Start(t, puppet.Config{Name: "x2", Kinds: []string{"any"}})
	jobs := s.runIn(t, "x2", 5, puppet.Job{Kind: "any", Script: puppet.Script{"x2": puppet.Retry(time.Second, 2*time.Second)}})
	s.Await(t, "(select count(*) from lockstep.jobs where state = 'retrying' and id = any ($1)) = $2", jobs, len(jobs))
	x.Signal(t, syscall.SIGTERM)
	x.Wait(t)
	s.AwaitCompleted(t, jobs...)
	s.measure(t, "retried", byRunAt, jobs)
}

// leaseOfAKilledWorker kills a worker that runs five jobs. The others were idle
// when it claimed them, and no signal told them of it: it took each over as it
// finished the job before, which it alone handles. That was more than a lease
// after it came, which is when they looked.
func (s *system) leaseOfAKilledWorker(t *testing.T) {
	x := s.Start(t, puppet.Config{Name: "x3", Kinds: []string{"any", "X"}, Lease: 2 * time.Second})
	jobs := make([]int64, 5)
	for i := range jobs {
		lane := fmt.Sprint("killed ", i)
		s.Enqueue(t, puppet.Job{Kind: "X", OrderingKey: lane, Script: puppet.Script{"x3": puppet.Work(3 * time.Second)}})
		jobs[i] = s.Enqueue(t, puppet.Job{Kind: "any", OrderingKey: lane, Script: puppet.Script{"x3": puppet.Hold()}})
	}
	s.AwaitStart(t, "x3", jobs...)
	x.Kill(t)
	s.Await(t, "not exists (select from pg_stat_activity where application_name like 'x3 %')")
	s.Exec(t, "create table lease_end as select id, lease_until from lockstep.job where id = any ($1)", jobs)
	s.AwaitCompleted(t, jobs...)
	s.measure(t, leaseEnded, byLeaseEnd, jobs)
}

// runIn inserts jobs until a worker runs, or ran, n of them; others finish
// what they get at once. It returns the worker's.
func (s *system) runIn(t *testing.T, worker string, n int, job puppet.Job) (jobs []int64) {
	t.Helper()
	for i := 0; len(jobs) < n; i++ {
		job.OrderingKey = ""
		if i%2 == 0 {
			job.OrderingKey = fmt.Sprint(worker, " ", i)
		}
		id := s.Enqueue(t, job)
		s.Await(t, "exists (select from journal where what = 'start' and job = $1)", id)
		if testdb.Value[bool](t, s.DB, "select exists (select from journal where what = 'start' and job = $1 and worker = $2)", id, worker) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}
