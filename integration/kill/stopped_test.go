package kill

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/puppet"
)

// TestC81_StoppedWorkerChangesNothing freezes a worker beyond its leases, in
// rounds of other timing. When it wakes up, half of its jobs run elsewhere and
// half are done: it reports them all as completed.
func TestC81_StoppedWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			stopAndGoOn(t, time.Duration(rand.IntN(1500))*time.Millisecond)
		})
	}
}

// stopAndGoOn freezes a worker a while after its jobs have started.
func stopAndGoOn(t *testing.T, after time.Duration) {
	t.Logf("stopped after %v", after)
	s := puppet.NewScene(t)
	x := s.Start(t, puppet.Config{Name: "x", Kinds: []string{"k"}, Lease: 2 * time.Second})
	script := puppet.Script{"x": puppet.Late(), "y": puppet.Work(3 * time.Second)}
	var running, done []int64
	for i := range 3 {
		running = append(running, s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: fmt.Sprint("running ", i), Script: script}))
		done = append(done, s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: fmt.Sprint("done ", i), Script: puppet.Script{"x": puppet.Late()}}))
	}
	jobs := append(running, done...)
	s.AwaitStart(t, "x", jobs...)
	s.Start(t, puppet.Config{Name: "y", Kinds: []string{"k"}})

	<-time.After(after) // at any moment between heartbeats
	x.Signal(t, syscall.SIGSTOP)
	s.AwaitCompleted(t, done...)
	s.AwaitStart(t, "y", running...)
	x.Signal(t, syscall.SIGCONT)
	s.Await(t, "(select count(distinct job) from journal where worker = 'x' and what = 'ineffective') = $1", len(jobs))
	expect(t, s, 0, "jobs that were over when the late report came",
		"count(*) from journal where worker = 'y' and what = 'end' and job = any ($1)", running)
	s.AwaitCompleted(t, jobs...)

	expect(t, s, len(jobs), "handlers that were told that the lease is lost",
		"count(*) from journal where worker = 'x' and what = 'end' and detail = $1", dispatcher.ErrLeaseLost.Error())
	expect(t, s, len(jobs), "jobs completed with the fence of y's attempt",
		"count(*) from lockstep.finished_job f join journal j on j.job = f.id and j.fence = f.fence where j.worker = 'y' and j.what = 'start' and f.attempt = 2")
	expect(t, s, len(jobs), "attempts lost", "count(*) from lockstep.attempt where outcome = 'lost'")
	expect(t, s, len(jobs), "attempts that did not complete", "count(*) from lockstep.attempt")
	expectNoOverlap(t, s)
}
