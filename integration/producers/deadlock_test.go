package producers_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestThreeRandomLanesNeverDeadlock: 16 clients, each transaction inserts into
// 3 random of 20 lanes in separate statements.
func TestThreeRandomLanesNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	const clients = 16
	counts := make([]int, clients)
	ctx, cancel := context.WithTimeout(t.Context(), length(t))
	defer cancel()
	var group errgroup.Group
	for i := range clients {
		c := newClient(t, db)
		group.Go(func() error {
			for ; ctx.Err() == nil; counts[i]++ {
				if err := c.insertIntoThree(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if total < clients {
		t.Errorf("%d transactions are no proof", total)
	}
	t.Logf("%d transactions, %.0f a second", total, float64(total)/length(t).Seconds())
	if n := testdb.Value[int](t, db, "select deadlocks from pg_stat_database where datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	expectPlaced(t, db, 3*total)
}

func (c *client) insertIntoThree() error {
	tx, err := c.Begin(c.t.Context())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(c.t.Context()) }()
	for range 3 {
		_, err := tx.Exec(c.t.Context(), "insert into lockstep.job (kind, ordering_key) values ('k', 'lane ' || $1::int)", rand.IntN(20))
		if err != nil {
			return err
		}
	}
	return tx.Commit(c.t.Context())
}

// expectPlaced checks that all jobs are in their lanes, each with one head.
func expectPlaced(t *testing.T, db *testdb.DB, jobs int) {
	t.Helper()
	lanes := testdb.Value[int](t, db, "select count(distinct (queue, ordering_key)) from lockstep.job")
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where stage in ('r', 'w')"); n != jobs {
		t.Errorf("%d of %d jobs are in their lanes", n, jobs)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where stage = 'r'"); n != lanes {
		t.Errorf("%d heads in %d lanes", n, lanes)
	}
}

// TestIdleProducerHoldsNobodyUp: one sits in its transaction after the enqueue,
// others enqueue to the same lane at once, and are first in it.
func TestIdleProducerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	idle, other := newClient(t, db), newClient(t, db)
	idle.do("begin; select lockstep.enqueue('idle', ordering_key => 'a')")
	for range 20 {
		other.do("select lockstep.enqueue('other', ordering_key => 'a')") // would wait for ever
	}
	idle.do("commit")
	if last := testdb.Value[string](t, db, "select kind from lockstep.job order by lane_turn desc limit 1"); last != "idle" {
		t.Errorf("the last in the lane is %q, want the last that committed", last)
	}
	expectPlaced(t, db, 21)
}
