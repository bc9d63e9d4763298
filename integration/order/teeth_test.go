package order_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// rule is a piece of the schema's SQL, and what stands there without the rule.
type rule struct{ file, text, without string }

var entryLock = rule{
	file: "0008_place.sql",
	text: "perform @schema@.lock_lanes(queues, tenants, keys, first_round);",
}

var nextIsLocked = rule{
	file:    "0009_leave.sql",
	text:    "locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage = 'w' for update skip locked);",
	without: "locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage = 'w');",
}

// takenOut returns the migrations without the rule. Its text must stand there
// exactly once.
func (r rule) takenOut(t *testing.T) fs.FS {
	t.Helper()
	changed := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		changed[name] = &fstest.MapFile{Data: text}
	}
	file := changed[r.file]
	if file == nil || strings.Count(string(file.Data), r.text) != 1 {
		t.Fatalf("%s does not say exactly once: %s", r.file, r.text)
	}
	file.Data = []byte(strings.Replace(string(file.Data), r.text, r.without, 1))
	return changed
}

// TestTeeth shows that TestOrder can fail: without a rule it does, within five
// runs.
func TestTeeth(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]rule{"without the entry lock": entryLock, "without a lock on the next job": nextIsLocked} {
		t.Run(name, func(t *testing.T) {
			files := rule.takenOut(t)
			for n := range 5 {
				v := sized(crowded()).do(t, testdb.NewFrom(t, files), runSeed(n))
				if v.faults() > 0 {
					t.Logf("run %d: %v", n+1, v)
					return
				}
			}
			t.Error("TestOrder passes without the rule")
		})
	}
	t.Run("with all rules", func(t *testing.T) {
		seed := runSeed(0)
		if v := crowded().do(t, testdb.New(t), seed); v.faults() > 0 {
			t.Errorf("-order.seed=%d\n%v", seed, v)
		}
	})
}

// TestSecondHead shows that the index itself refuses a lane a second head,
// whichever stage the two are in.
func TestSecondHead(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for _, head := range []string{"r", "b"} {
		for _, second := range []string{"r", "b"} {
			db.Exec(t, `delete from lockstep.job`)
			db.Exec(t, `insert into lockstep.job (kind, ordering_key) values ('k', 'lane'), ('k', 'lane')`)
			db.Exec(t, `update lockstep.job set stage = $1::text::"char" where stage = 'r'`, head)
			_, err := db.Conn(t).Exec(t.Context(), `update lockstep.job set stage = $1::text::"char" where stage = 'w'`, second)
			if got := violated(err); got != "job_head" {
				t.Errorf("a second head %q beside a head %q violates %q, want job_head: %v", second, head, got, err)
			}
		}
	}
	db.Exec(t, `delete from lockstep.job where stage in ('r', 'b')`)
	db.Exec(t, `update lockstep.job set stage = 'r'`) // the same, once the head is gone
}

// violated is the constraint that err tells of.
func violated(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	return pg.ConstraintName
}
