package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/clockstep"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC65ClockSkew steps a worker's clock by ten minutes, again and again, while it
// runs a job for longer than a lease, beside a worker with a right clock: no lease is lost, and
// nothing runs early, or so late. Durations travel as intervals, and the
// database adds them to its own clock.
func TestC65ClockSkew(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]syscall.Signal{"ahead": syscall.SIGUSR1, "back": syscall.SIGUSR2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 6*time.Second)
			x := s.worker("x")
			long := s.enqueue(Job{Lane: Lane{skipQueue, "l"}, Script: Script{Work: s.record.Lease + s.record.Lease/2}})
			s.awaitRuns(1) // x has it: there is nobody else
			s.worker("y")
			for i := range 8 { // for either of the two
				s.enqueue(Job{Lane: Lane{skipQueue, fmt.Sprint(i)}, Script: Script{Fails: 1, Pause: 2 * time.Second, Work: 50 * time.Millisecond}})
				s.enqueue(Job{Lane: Lane{skipQueue, fmt.Sprint(i)}, Script: Script{Snoozes: 1, Pause: time.Second}, Delay: 2 * time.Second})
				s.enqueue(Job{Lane: Lane{skipQueue, fmt.Sprint(i)}, InTx: true})
			}
			if err := clockstep.Step(0); err != nil {
				t.Logf("the clock is left as it is: %v", err)
			} else {
				for began := time.Now(); time.Since(began) < s.record.Lease; time.Sleep(200 * time.Millisecond) {
					x.Signal(t, step)
				}
			}
			record := s.drained()
			complain(t, 0, judge(record))
			if runs := s.runsOf(long); len(runs) != 1 || runs[0].Worker != "x" || runs[0].Outcome != completed {
				t.Errorf("the long job was to run once, in x: %v", runs)
			}
		})
	}
}

// scene is a witness and workers around a database of the test's own.
type scene struct {
	*service
	t    testing.TB
	db   *testdb.DB
	jobs int
}

func newScene(t testing.TB, lease time.Duration) *scene {
	t.Helper()
	service, err := serve(newWitness(lease))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.close)
	db := testdb.New(t)
	db.Exec(t, setUp)
	return &scene{service: service, t: t, db: db}
}

func (s *scene) worker(name string) *workerproc.Process {
	s.t.Helper()
	config := actorConfig{Name: name, URL: s.db.URL, Witness: s.address(), Lease: s.record.Lease}
	p := workerproc.Start(s.t, workerRole, config.args()...)
	p.Await(s.t, ready)
	return p
}

// enqueue adds a job, as a producer does, and returns its marker.
func (s *scene) enqueue(job Job) string {
	s.t.Helper()
	s.jobs++
	id := fmt.Sprint("t", s.jobs)
	job.Marker = id + "/0"
	var none int
	_ = s.Begin(id, &none)
	_ = s.Commit(Committing{id, []Job{job}}, &none)
	enqueued, err := store.New(s.db.Conn(s.t)).Enqueue(s.t.Context(), job.request())
	if err != nil {
		s.t.Fatal(err)
	}
	_ = s.Settle(Settled{ID: id, Fate: committed, JobID: enqueued.ID}, &none)
	return job.Marker
}

// awaitRuns returns once so many handlers have started.
func (s *scene) awaitRuns(n int) {
	s.t.Helper()
	for {
		next := s.next()
		if _, runs := s.progress(); runs >= n {
			return
		}
		select {
		case <-next:
		case <-time.After(patience):
			s.t.Fatalf("%d handlers did not start within %v", n, patience)
		}
	}
}

// drained is the record once no job is live.
func (s *scene) drained() Record {
	s.t.Helper()
	for deadline := time.Now().Add(patience); testdb.Value[bool](s.t, s.db, "select exists (select from lockstep.job)"); {
		if time.Now().After(deadline) {
			s.t.Errorf("jobs are left after %v", patience)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	record, err := s.testimony().final(s.t.Context(), s.db.Conn(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return record
}

func (s *scene) runsOf(marker string) (runs []Run) {
	for _, run := range s.testimony().Runs {
		if run.Marker == marker {
			runs = append(runs, run)
		}
	}
	return runs
}
