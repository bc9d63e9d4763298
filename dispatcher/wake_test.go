package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
	"github.com/lockstep-pg/lockstep/store"
)

func nop(context.Context, dispatcher.Job[payload]) error { return nil }

// listening waits until signals arrive.
func (r *rig) listening() {
	r.Helper()
	r.await("listening", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Listening && e.Reason == listener.Connected.String()
	})
}

func (r *rig) awaitRecorded(n int) {
	r.Helper()
	r.await("recorded", n, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded })
}

// TestWokenBySignal: no look but those that signals lead to finds anything.
func TestWokenBySignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	for i := range 2 { // which the look after LISTEN may still find
		r.db.Exec(t, "insert into lockstep.job (kind) values ('k')")
		r.awaitRecorded(1 + i)
	}
	before := d.Stats().Queues["default"]
	for i := range 10 {
		r.db.Exec(t, "insert into lockstep.job (kind, ordering_key) values ('k', 'a'), ('k', null)")
		r.awaitRecorded(2 + 2*(i+1))
	}
	after := d.Stats().Queues["default"]
	for why, looks := range after.Looks {
		want := map[bool]uint64{true: 20}[why == dispatcher.BySignal]
		if got := looks.Jobs - before.Looks[why].Jobs; got != want {
			t.Errorf("%d jobs found by %v, want %d", got, why, want)
		}
	}
	if after.LostSignals != 0 {
		t.Errorf("%d lost signals", after.LostSignals)
	}
}

// TestWokenByDueTimes: scheduled into an idle system by somebody else, each in
// time.
func TestWokenByDueTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	for i := range 5 {
		r.db.Exec(t, "insert into lockstep.job (kind, run_at) values ('k', clock_timestamp() + $1 * interval '1 ms')", 200-30*i)
	}
	r.awaitRecorded(5)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where claimed_at < run_at"); n != 0 {
		t.Errorf("%d jobs ran before they were due", n)
	}
	q := d.Stats().Queues["default"]
	if q.LostSignals != 0 || q.Looks[dispatcher.ByPoll].Jobs != 0 {
		t.Errorf("%+v", q)
	}
}

// TestC6BacklogAtStart: what is there when a dispatcher starts runs at once, and
// what is due later in time, without the poll.
func TestC6BacklogAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "now", nop)
	dispatcher.Handle(d, "later", nop)
	var jobs []store.NewJob
	for range 10 {
		jobs = append(jobs, store.NewJob{Kind: "now"})
	}
	for range 5 {
		jobs = append(jobs, store.NewJob{Kind: "later", Delay: 1500 * time.Millisecond})
	}
	r.enqueue(jobs...)
	r.start(d)
	r.awaitRecorded(15)
	const late = "select coalesce(max(claimed_at - run_at), '0') from lockstep.finished_job where kind = $1"
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.finished_job where claimed_at < run_at"); n != 0 {
		t.Errorf("%d jobs ran before they were due", n)
	}
	if took := testdb.Value[time.Duration](t, r.db, late, "later"); took > 10*time.Second {
		t.Errorf("a job ran %v after it was due", took)
	}
	q := d.Stats().Queues["default"]
	if q.Looks[dispatcher.ByCatchUp].Jobs < 10 || q.Looks[dispatcher.ByPoll].Jobs != 0 || q.LostSignals != 0 {
		t.Errorf("%+v", q)
	}
}

// TestLaneAlternatesBetweenDispatchers: each finish of one is the other's
// signal.
func TestLaneAlternatesBetweenDispatchers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.dispatcher(dispatcher.Config{}), r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(a, "a", nop)
	dispatcher.Handle(b, "b", nop)
	r.start(a)
	r.start(b)
	r.await("listening", 2, func(e dispatcher.Event) bool { return e.Type == dispatcher.Listening })
	var jobs []store.NewJob
	for i := range 20 {
		jobs = append(jobs, store.NewJob{Kind: string("ab"[i%2]), OrderingKey: "lane"})
	}
	want := r.enqueue(jobs...)
	r.awaitRecorded(20)
	var got []int64
	r.mu.Lock()
	for _, e := range r.events {
		if e.Type == dispatcher.Started {
			got = append(got, e.JobID)
		}
	}
	r.mu.Unlock()
	if !slices.Equal(got, want) {
		t.Errorf("ran in the order %v, want %v", got, want)
	}
}

// TestLostSignalIsCounted: where signals do not arrive, jobs run by the poll,
// and that is told and counted.
func TestLostSignalIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Poll: 50 * time.Millisecond})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	r.await("a poll", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked && e.Wake == dispatcher.ByPoll })
	r.db.Exec(t, "begin; set local lockstep.signals = off; insert into lockstep.job (kind) values ('k'), ('k'); commit")
	r.awaitRecorded(2)
	e := r.awaitType(dispatcher.Wakeless, 0)
	if q := d.Stats().Queues["default"]; q.LostSignals != 2 || q.Looks[dispatcher.ByPoll].Jobs != 2 || e.Jobs != 2 {
		t.Errorf("%d of 2 lost signals counted, %d told", q.LostSignals, e.Jobs)
	}
}

// TestC15PollOnly: a listener that can't listen costs promptness, nothing else.
func TestC15PollOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{
		Poll: 50 * time.Millisecond, ListenURL: "postgres://127.0.0.1:1/nowhere?connect_timeout=1",
	})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	for i := range 3 {
		r.enqueue(store.NewJob{Kind: "k"})
		r.awaitRecorded(i + 1)
	}
	if mode := d.Stats().Listener.Mode; mode == listener.Connected {
		t.Error("the listener claims to be connected")
	}
}

// TestHeadlessLaneIsSwept: a head deleted by hand costs its lane nothing but
// the time to notice.
func TestHeadlessLaneIsSwept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	ids := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a", Delay: 0}, store.NewJob{Kind: "k", OrderingKey: "a"})
	r.db.Exec(t, "delete from lockstep.job where id = $1", ids[0])
	r.start(d)
	r.awaitType(dispatcher.Recorded, ids[1])
}

// TestConcurrency is what is claimed for, per queue.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"one": {Concurrency: 1}, "three": {Concurrency: 3}}})
	gate := make(chan struct{})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { <-gate; return nil })
	var jobs []store.NewJob
	for i := range 10 {
		jobs = append(jobs, store.NewJob{Kind: "k", Queue: "one"}, store.NewJob{Kind: "k", Queue: "three", OrderingKey: fmt.Sprint(i)})
	}
	r.enqueue(jobs...)
	r.start(d)
	r.await("started", 4, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })
	r.until("count(*) = 4 from lockstep.job where attempt > 0")
	for range 20 {
		gate <- struct{}{}
	}
	r.awaitRecorded(20)
	r.mu.Lock()
	defer r.mu.Unlock()
	running, most := map[string]int{}, map[string]int{}
	for _, e := range r.events {
		switch e.Type {
		case dispatcher.Started:
			running[e.Queue]++
			most[e.Queue] = max(most[e.Queue], running[e.Queue])
		case dispatcher.Ended:
			running[e.Queue]--
		}
	}
	if most["one"] != 1 || most["three"] != 3 {
		t.Errorf("ran at a time: %v", most)
	}
}
