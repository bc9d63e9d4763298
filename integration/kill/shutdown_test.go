package kill

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/puppet"
)

// TestC87Shutdown asks a worker to end that runs five jobs which are done within
// its grace and five which are not.
func TestC87Shutdown(t *testing.T) {
	t.Parallel()
	s := puppet.NewScene(t)
	y := s.Start(t, puppet.Config{Name: "y", Kinds: []string{"k"}})
	y.Signal(t, syscall.SIGSTOP) // until x has the jobs
	x := s.Start(t, puppet.Config{Name: "x", Kinds: []string{"k"}, Grace: 1500 * time.Millisecond})
	var short, long []int64
	for i := range 5 {
		short = append(short, s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: fmt.Sprint("short ", i), Script: puppet.Script{"x": puppet.Work(time.Second)}}))
		long = append(long, s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: fmt.Sprint("long ", i), Script: puppet.Script{"x": puppet.Hold()}}))
	}
	s.AwaitStart(t, "x", append(short, long...)...)
	y.Signal(t, syscall.SIGCONT)
	x.Signal(t, syscall.SIGTERM)
	if code := x.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	s.AwaitCompleted(t, append(short, long...)...)

	expect(t, s, len(short), "starts of the short jobs", "count(*) from journal where what = 'start' and job = any ($1)", short)
	expect(t, s, len(long), "long jobs that were told of the shutdown",
		"count(*) from journal where worker = 'x' and what = 'end' and detail = $2 and job = any ($1)", long, dispatcher.ErrShutdown.Error())
	expect(t, s, len(long), "long jobs that ran elsewhere as the same attempt",
		"count(*) from journal where worker = 'y' and what = 'start' and attempt = 1 and job = any ($1)", long)
	expect(t, s, len(long), "attempts given back", "count(*) from lockstep.attempt where outcome = 'released'")
	expect(t, s, 0, "attempts that ended otherwise", "count(*) from lockstep.attempt where outcome <> 'released'")
	expect(t, s, true, "long jobs started again at once", `bool_and(j.at - a.ended_at < interval '500 ms')
		from lockstep.attempt a join journal j on j.job = a.job_id and j.worker = 'y' and j.what = 'start'`)
	if n := strings.Count(x.Stderr(), "outcome=released"); n != len(long) {
		t.Errorf("%d log lines say that a job was given back, want %d:\n%s", n, len(long), x.Stderr())
	}
	expectNoOverlap(t, s)
}
