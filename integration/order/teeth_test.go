package order_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// edit replaces a piece of a migration's SQL.
type edit struct{ file, text, by string }

// A rule is taken out of the schema by edits.
var (
	entryLock = []edit{
		{file: "0008_place.sql", text: "perform @schema@.lock_lanes(queues, tenants, keys, first_round);"},
		{
			file: "0008_place.sql",
			text: "if not @schema@.try_entry(place_one.queue, place_one.tenant, place_one.ordering_key) then",
			by:   "if false then",
		},
	}
	nextIsLocked = []edit{{
		file: "0009_leave.sql",
		text: "where j.id = any (nexts) and j.stage::text = 'w' for update skip locked);",
		by:   "where j.id = any (nexts) and j.stage::text = 'w');",
	}}
	freshTurn = []edit{{
		file: "0008_place.sql",
		text: "set stage = 'r', turn = @schema@.next_turn() where j.id = any (ids);",
		by:   "set stage = 'r' where j.id = any (ids);",
	}}
	onlySettledInTx = []edit{{file: "0012_finish.sql", text: "  if settle_only then\n", by: "  if false then\n"}}
)

// edited returns the migrations with edits. The text of each must stand there
// exactly once.
func edited(t *testing.T, edits []edit) fs.FS {
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
	for _, e := range edits {
		file := changed[e.file]
		if file == nil || strings.Count(string(file.Data), e.text) != 1 {
			t.Fatalf("%s does not say exactly once: %s", e.file, e.text)
		}
		file.Data = []byte(strings.Replace(string(file.Data), e.text, e.by, 1))
	}
	return changed
}

// TestTeeth shows that TestOrder can fail: without a rule it does, within five
// runs. With -order.runs it takes those of full size.
func TestTeeth(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]edit{"without the entry lock": entryLock, "without a lock on the next job": nextIsLocked} {
		t.Run(name, func(t *testing.T) {
			files := edited(t, edits)
			caught := false
			for n := 0; n < 5 && !caught; n++ {
				t.Run(fmt.Sprint("run ", n+1), func(t *testing.T) {
					v := sized(crowded()).do(t, testdb.NewFrom(t, files), runSeed(n))
					caught = v.faults() > 0
					t.Log(v)
				})
			}
			if !caught {
				t.Error("TestOrder passes without the rule")
			}
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
