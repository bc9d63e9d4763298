package order_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestLanesTakeTurns puts many deep lanes first, then one job on a new lane: it
// starts before any lane has started two more jobs.
func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	fillLanes(t, db, 500, 400)
	for _, concurrency := range []int{8, 1} {
		t.Run(fmt.Sprintf("concurrency %d", concurrency), func(t *testing.T) {
			if lane, n := newcomer(t, db, concurrency, 100); n > 1 {
				t.Errorf("%s started %d more jobs before the new lane's only one", lane, n)
			}
		})
	}
}

// TestTurnsHaveTeeth shows that the same test fails where a promoted job keeps
// its old turn.
func TestTurnsHaveTeeth(t *testing.T) {
	t.Parallel()
	db := testdb.NewFrom(t, edited(t, freshTurn))
	fillLanes(t, db, 5, 20)
	if _, n := newcomer(t, db, 1, 10); n < 2 {
		t.Errorf("a lane started %d more jobs before the new lane's only one, want many", n)
	}
}

// fillLanes fills one lane after the other, in one statement.
func fillLanes(t *testing.T, db *testdb.DB, lanes, depth int) {
	t.Helper()
	db.Exec(t, `insert into lockstep.job (kind, ordering_key)
		select $1, 'lane ' || l from generate_series(1, $2::int) l, generate_series(1, $3::int) order by l`, kind, lanes, depth)
}

// newcomer works on what is there, and after so many starts, while all slots
// are busy, adds a job on a new lane. It returns the lane that had started most
// jobs since when that one started.
func newcomer(t *testing.T, db *testdb.DB, concurrency, after int) (lane string, most int) {
	t.Helper()
	log := &startLog{newcomer: t.Name(), after: after, slots: concurrency, gate: make(chan struct{}), full: make(chan struct{}), seen: make(chan struct{})}
	d, err := dispatcher.New(db.Pool(t), dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: concurrency}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher.Handle(d, kind, log.handle)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-log.full
	db.Exec(t, `insert into lockstep.job (kind, ordering_key) values ($1, $2)`, kind, t.Name())
	close(log.gate)
	<-log.seen
	return log.most()
}

// startLog counts the starts of lanes from when the gate opens until the
// newcomer starts. The gate is shut once `after` jobs have started: the next
// ones wait there until all slots are at it.
type startLog struct {
	newcomer     string
	after, slots int
	gate         chan struct{} // closed: open
	full         chan struct{} // closed: all slots wait at the gate
	seen         chan struct{} // closed: the newcomer has started

	mu     sync.Mutex
	n      int
	starts []dispatcher.Job[struct{}] // since the gate is open; the newcomer is the last
}

func (l *startLog) handle(ctx context.Context, job dispatcher.Job[struct{}]) error {
	if !l.start(job) {
		return nil
	}
	select {
	case <-l.gate:
	case <-ctx.Done():
	}
	return nil
}

// start reports whether the job is to wait at the gate.
func (l *startLog) start(job dispatcher.Job[struct{}]) (wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	switch {
	case l.n <= l.after || l.arrived():
		return false
	case l.n < l.after+l.slots:
		return true
	case l.n == l.after+l.slots:
		close(l.full)
		return true
	}
	l.starts = append(l.starts, job)
	if l.arrived() {
		close(l.seen)
	}
	return false
}

func (l *startLog) arrived() bool {
	return len(l.starts) > 0 && l.starts[len(l.starts)-1].OrderingKey == l.newcomer
}

// most is the lane that started most jobs before the newcomer. Those that one
// claim took together with it do not count: they started at the same time.
func (l *startLog) most() (lane string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newcomer := l.starts[len(l.starts)-1]
	counts := map[string]int{}
	for _, job := range l.starts {
		if job.ClaimedAt.Before(newcomer.ClaimedAt) {
			counts[job.OrderingKey]++
		}
		if counts[job.OrderingKey] > n {
			lane, n = job.OrderingKey, counts[job.OrderingKey]
		}
	}
	return lane, n
}
