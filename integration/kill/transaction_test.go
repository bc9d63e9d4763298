package kill

import (
	"fmt"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestTransactionOutlivesItsLease cuts a worker's heartbeats, and nothing else,
// while a transactional handler runs: the run lock holds the job.
func TestTransactionOutlivesItsLease(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := puppet.NewScene(t)
	server := testdb.Server(t)
	proxy, err := faultproxy.Start(net.JoinHostPort(server.Host(), strconv.Itoa(server.Port())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	s.Start(t, puppet.Config{Name: "x", TxKinds: []string{"k"}, Lease: lease, HeartbeatPort: proxy.Port()})
	// Beyond its lease, but not by another one: then it would be ended.
	job := s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: "lane", Script: puppet.Script{"x": puppet.Work(lease + lease/2)}})
	next := s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: "lane"})
	s.AwaitStart(t, "x", job)
	s.Start(t, puppet.Config{Name: "y", TxKinds: []string{"k"}, Lease: lease})

	proxy.Set(faultproxy.Fault{Refuse: true})
	proxy.Reset()
	s.Await(t, "(select held_since > '-infinity' from lockstep.job where id = $1)", job) // y met the lock
	s.AwaitCompleted(t, job, next)

	expect(t, s, 1, "starts of the job", "count(*) from journal where what = 'start' and job = $1", job)
	expect(t, s, 1, "its effects, with the fence it completed with",
		"count(*) from effect e join lockstep.finished_job f on f.id = e.job and f.fence = e.fence where e.job = $1 and f.attempt = 1", job)
	expect(t, s, 0, "attempts that did not complete", "count(*) from lockstep.attempt")
	expect(t, s, true, "the lane's next job started after its end",
		"(select at from journal where what = 'start' and job = $2) > (select at from journal where what = 'end' and job = $1)", job, next)
	expectNoOverlap(t, s)
}

// TestFrozenTransactionIsEnded freezes a worker with transactional handlers:
// their sessions hold the run locks for ever, so somebody ends them.
func TestFrozenTransactionIsEnded(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := puppet.NewScene(t)
	x := s.Start(t, puppet.Config{Name: "x", TxKinds: []string{"k"}, Lease: lease})
	jobs := make([]int64, 3)
	for i := range jobs {
		jobs[i] = s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: fmt.Sprint("lane ", i), Script: puppet.Script{"x": puppet.Late()}})
	}
	s.AwaitStart(t, "x", jobs...)
	s.Start(t, puppet.Config{Name: "y", TxKinds: []string{"k"}, Lease: lease})
	s.Exec(t, "create table frozen as select pid from pg_stat_activity where application_name = 'x lockstep tx' and datname = current_database()")

	stopped := testdb.Value[time.Time](t, s.DB, "select clock_timestamp()")
	x.Signal(t, syscall.SIGSTOP)
	s.AwaitCompleted(t, jobs...)
	expect(t, s, len(jobs), "sessions that were frozen", "count(*) from frozen")
	expect(t, s, 0, "frozen sessions left", "count(*) from frozen join pg_stat_activity using (pid)")
	again := testdb.Value[time.Time](t, s.DB, "select max(at) from journal where worker = 'y' and what = 'start'").Sub(stopped)
	t.Logf("the last of %d jobs ran again %v after their worker froze", len(jobs), again)
	if limit := 2*lease + 3*time.Second; again > limit {
		t.Errorf("a job ran again %v after its worker froze, more than %v\n%s", again, limit, s.Journal(t))
	}

	x.Signal(t, syscall.SIGCONT)
	s.Await(t, "(select count(*) from journal where worker = 'x' and what = 'end') = $1", len(jobs))
	x.Signal(t, syscall.SIGTERM)
	x.Wait(t)
	expect(t, s, len(jobs), "effects, all of y's completed attempts",
		"count(*) from effect e join lockstep.finished_job f on f.id = e.job and f.fence = e.fence join journal j on j.job = f.id and j.fence = f.fence where j.worker = 'y' and j.what = 'start'")
	expect(t, s, len(jobs), "effects", "count(*) from effect")
	expectNoOverlap(t, s)
}
