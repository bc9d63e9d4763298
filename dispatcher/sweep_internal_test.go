package dispatcher

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestRefusedSweepDelaysNoFullOne: while the sweep of one queue is refused again
// and again, lanes of another that nobody asks about get their heads back.
func TestRefusedSweepDelaysNoFullOne(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	refused := headless(t, db, "a")
	lost := headless(t, db, "b")
	holder, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "select from lockstep.job where id = $1 for update", refused); err != nil {
		t.Fatal(err)
	}
	s := still(t, t.Context(), db.Pool(t), Config{Queues: map[string]Queue{"a": {}, "b": {}}})
	t.Cleanup(s.conns.close)
	w := s.sweeper
	w.every, w.asked = 50*time.Millisecond, map[string]bool{"a": true} // what a start asks for is done
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { w.run(ctx) })
	defer loop.Wait()
	defer stop()
	select {
	case <-s.queues[1].bell.c: // rung after a sweep that promoted
	case <-time.After(20 * time.Second):
		t.Error("no sweep found the lane of the other queue")
	}
	for id, want := range map[int64]string{refused: "w", lost: "r"} {
		if stage := testdb.Value[string](t, db, "select stage::text from lockstep.job where id = $1", id); stage != want {
			t.Errorf("job %d is %s, want %s", id, stage, want)
		}
	}
}

// headless makes a lane whose head was deleted by hand, and returns the first of
// those that wait.
func headless(t *testing.T, db *testdb.DB, queue string) (id int64) {
	t.Helper()
	job := store.NewJob{Kind: "k", Queue: queue, OrderingKey: "o"}
	jobs, err := store.New(db.Conn(t)).EnqueueMany(t.Context(), []store.NewJob{job, job})
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "delete from lockstep.job where id = $1", jobs[0].ID)
	return jobs[1].ID
}
