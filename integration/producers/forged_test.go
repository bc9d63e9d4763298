package producers_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// What the triggers note in settings may be forged, or be left behind on a
// pooled connection. At worst the forger's own jobs wait for the sweep.

// forgeries are values for the settings; XID is the transaction's, NEXT the one
// after it.
var forgeries = []string{
	"", "junk", "XID", "XID:", "XID:1", "XID:1+", "XID:many", "XID:many+", "XID:done", "XID:done:1", "1XID:done", "XID:\n",
	"XID;", "XID;r ;;", "XID;;d 0 9999999999999999999;", "1:many", "-1:done", "NEXT:1", "NEXT:many+", "NEXT:done", `'"\; drop`, "XID:9999", "é",
}

// forge sets the settings of the schema.
func (c *client) forge(value string, local bool) {
	c.t.Helper()
	c.do(`select set_config(lockstep.setting(name), replace(replace($1, 'XID', xid::text), 'NEXT', (xid + 1)::text), $2)
		from unnest(array['entering', 'said', 'cancels']) name, (select pg_current_xact_id()::text::bigint as xid) x`, value, local)
}

func TestSettingsForgedInTheTransaction(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	forger, other := newClient(t, db), newClient(t, db)
	for i, value := range forgeries {
		for when := range 3 { // before the first insert, before the second, after it
			forger.do("begin")
			for step := range 3 {
				if step == when {
					forger.forge(value, true)
				}
				if step < 2 {
					forger.do("select lockstep.enqueue('forger', ordering_key => $1)", fmt.Sprint("forger ", i, when, step))
				}
			}
			other.do("select lockstep.enqueue('other', ordering_key => $1)", fmt.Sprint("other ", i, when))
			forger.do("commit")
		}
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where kind = 'other' and stage = 'r'"); n != 3*len(forgeries) {
		t.Errorf("%d of the other producer's %d jobs are heads of their lanes", n, 3*len(forgeries))
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where stage = 'e'"); n == 0 {
		t.Error("no forgery stranded a job, so the sweep is not tested")
	}
	sweepAll(t, db)
	expectPlaced(t, db, 9*len(forgeries))
}

// sweepAll sweeps until a pass is over.
func sweepAll(t *testing.T, db *testdb.DB) {
	t.Helper()
	s := store.New(db.Conn(t))
	for {
		swept, err := s.Sweep(t.Context(), 1000, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if swept.Placed == 0 && !swept.More {
			return
		}
	}
}

// TestSettingsLeftBehind: a session-level setting of the connection's last user
// is not believed, even if it guessed the transaction: the jobs are placed as
// they commit, and told of.
func TestSettingsLeftBehind(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	pooled, listener := newClient(t, db), newClient(t, db)
	listener.listen("lockstep")
	for i, value := range forgeries {
		pooled.forge(value, false)
		pooled.do("insert into lockstep.job (kind, ordering_key) values ('k', $1)", fmt.Sprint("one ", i))
		pooled.forge(value, false)
		pooled.do("insert into lockstep.job (kind, ordering_key) values ('k', $1 || 'a'), ('k', $1 || 'b')", fmt.Sprint("two ", i))
		if n := listener.heard(); n != 2 {
			t.Errorf("after %q: %d signals of 2 commits", value, n)
		}
	}
	expectPlaced(t, db, 3*len(forgeries))
}

// TestTwoSchemasInOneTransaction: their notes and locks do not meet.
func TestTwoSchemasInOneTransaction(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Migrate(t, migrations.Config{Schema: "my-jobs"})
	c, first, second := newClient(t, db), newClient(t, db), newClient(t, db)
	first.listen("lockstep")
	second.listen("my-jobs")
	c.do(`begin;
		insert into lockstep.job (kind, ordering_key) values ('k', 'a');
		insert into "my-jobs".job (kind, ordering_key) values ('k', 'a'), ('k', 'b');
		insert into lockstep.job (kind, ordering_key) values ('k', 'a');
		insert into "my-jobs".job (kind) values ('k');
		commit`)
	expectLanes(t, db, "a:rw")
	if n := testdb.Value[int](t, db, `select count(*) from "my-jobs".job where stage = 'r'`); n != 3 {
		t.Errorf("%d of 3 jobs of the second schema are ready", n)
	}
	if a, b := first.heard(), second.heard(); a != 1 || b != 1 {
		t.Errorf("%d and %d signals, want one for each schema", a, b)
	}
}
