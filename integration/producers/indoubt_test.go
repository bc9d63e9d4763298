package producers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// inDoubt leaves a prepared transaction that entered lane "a", and names it.
func inDoubt(t *testing.T, db *testdb.DB) (gid string) {
	t.Helper()
	gid = "in doubt, " + db.Name // names are the server's
	c := newClient(t, db)
	c.do("begin; set local lockstep.signals = off; select lockstep.enqueue('k', ordering_key => 'a'); prepare transaction '" + gid + "'")
	t.Cleanup(func() { // a failed test leaves it, and the database could not be dropped
		_, _ = c.Exec(context.Background(), "rollback prepared '"+gid+"'")
	})
	return gid
}

// A prepared transaction that entered a lane keeps it. The next commit to that
// lane fails after the time-out, naming lane and gid; the other lanes of the
// queue do not notice.
func TestInDoubtProducer(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"short time-out": time.Second, "real time-out": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			if timeout != 10*time.Second {
				db.Exec(t, "select lockstep.set_limits(entry_timeout => $1)", timeout)
			}
			gid := inDoubt(t, db)
			same, other := newClient(t, db), newClient(t, db)
			commit := same.start("select lockstep.enqueue('k', ordering_key => 'a')")
			same.blocked(db, commit)
			other.expectPrompt(commit)
			expectLaneLocked(t, commit, timeout, "lane 'a'", gid)

			db.Exec(t, "commit prepared '"+gid+"'")
			same.do("select lockstep.enqueue('k', ordering_key => 'a')")
			db.Exec(t, "delete from lockstep.job where ordering_key = 'other'")
			expectLanes(t, db, "a:rw")
		})
	}
}

// An EnqueueMany of 2,000 lanes runs into one: it needs the whole queue, and
// must not close it for others while it waits.
func TestInDoubtProducerAndBulk(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.set_limits(entry_timeout => '2 seconds')")
	gid := inDoubt(t, db)
	bulk, other := newClient(t, db), newClient(t, db)
	commit := bulk.start(`select lockstep.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'k', 'ordering_key', 'bulk ' || i)))
		from generate_series(1, 2000) i`)
	bulk.blocked(db, commit)
	other.expectPrompt(commit)
	expectLaneLocked(t, commit, 2*time.Second, "queue 'default'", gid)
	db.Exec(t, "rollback prepared '"+gid+"'")
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where ordering_key <> 'other'"); n != 0 {
		t.Errorf("%d jobs are left of what was refused and rolled back", n)
	}
}

// expectPrompt enqueues to another lane all the while. All but the odd one take
// no more than 150 ms longer than what the same takes in another queue, which
// nobody is in the way of; and none waits for the time-out.
func (c *client) expectPrompt(during *call) {
	c.t.Helper()
	var here, elsewhere []time.Duration
	for {
		select {
		case <-during.done:
			slices.Sort(here)
			slices.Sort(elsewhere)
			c.expectAlike(here, elsewhere)
			return
		default:
			here = append(here, c.insertInto("default"))
			elsewhere = append(elsewhere, c.insertInto("elsewhere"))
		}
	}
}

func (c *client) insertInto(queue string) time.Duration {
	took, err := c.timed("insert into lockstep.job (kind, queue, ordering_key) values ('k', $1, 'other')", queue)
	if err != nil {
		c.t.Fatal(err)
	}
	return took
}

func (c *client) expectAlike(here, elsewhere []time.Duration) {
	c.t.Helper()
	if len(here) == 0 {
		c.t.Error("nothing was enqueued meanwhile")
		return
	}
	most, last := len(here)*95/100, len(here)-1
	c.t.Logf("%d inserts: 95 %% within %v, the longest %v; elsewhere %v and %v", len(here), here[most], here[last], elsewhere[most], elsewhere[last])
	if here[most] > elsewhere[most]+150*time.Millisecond || here[last] > elsewhere[last]+900*time.Millisecond {
		c.t.Error("another lane's commits took longer than those of another queue")
	}
}

func expectLaneLocked(t *testing.T, commit *call, timeout time.Duration, what, gid string) {
	t.Helper()
	refused := refusal(t, commit.wait())
	if refused == nil || refused.Code != "LS004" || !strings.Contains(refused.Message, what) || !strings.Contains(refused.Message, gid) {
		t.Errorf("the commit ended with %v, want LS004 that names %s and %q", refused, what, gid)
	}
	if commit.took < timeout || commit.took > timeout+5*time.Second {
		t.Errorf("the commit failed after %v, want %v", commit.took, timeout)
	}
}
