package testdb_test

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

func TestNewIsMigratedAndPrivate(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			db.Exec(t, "create table lockstep.mine (); create table also_mine ()")
			if got := testdb.Value[string](t, db, "select current_database()"); got != db.Name {
				t.Errorf("connected to %s, want %s", got, db.Name)
			}
		})
	}
}

func TestNewEmpty(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	if testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = 'lockstep')") {
		t.Error("an empty database has our schema")
	}
}

func TestNewFrom(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"0001_own.sql": {Data: []byte("create table @schema@.own ()"), Mode: fs.ModePerm}}
	db := testdb.NewFrom(t, files)
	db.Exec(t, "select from lockstep.own")
}

// TestChanged: a change is made whether it is one that an upgrade makes too, as
// of a function, or not, as of what is made only where it is missing.
func TestChanged(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]testdb.Edit{
		"function": {
			File: "0001_names.sql",
			Old:  "create or replace function @schema@.channel()",
			New:  "create table @schema@.changed (); create or replace function @schema@.channel()",
		},
		"block":  {File: "0007_entry_lock.sql", Old: "return '10 seconds'::interval;", New: "return '11 seconds'::interval; create table @schema@.changed ();"},
		"frozen": {File: "0028_pause.sql", Old: "create table @schema@.pause (", New: "create table @schema@.changed (); create table @schema@.pause ("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testdb.NewFrom(t, testdb.Changed(t, edit)).Exec(t, "select from lockstep.changed")
		})
	}
}

// TestDroppedWithVisitors leaves connections and an open transaction behind.
func TestDroppedWithVisitors(t *testing.T) {
	t.Parallel()
	server := testdb.Server(t)
	var name string
	t.Run("visited", func(t *testing.T) {
		db := testdb.New(t)
		name = db.Name
		for i := range 3 {
			conn, err := pgx.Connect(t.Context(), db.URL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), fmt.Sprintf("begin; create table held_%d ()", i)); err != nil {
				t.Fatal(err)
			}
		}
		db.Pool(t)
	})
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left bool
	err = conn.QueryRow(t.Context(), "select exists (select from pg_database where datname = $1)", name).Scan(&left)
	if err != nil || left {
		t.Errorf("the database outlived its test: %v, %v", left, err)
	}
}

func BenchmarkNew(b *testing.B) {
	testdb.New(b) // the server's start and the template
	for b.Loop() {
		testdb.New(b)
	}
	if each := b.Elapsed() / time.Duration(b.N); each > 100*time.Millisecond {
		b.Logf("a database takes %v, more than 100 ms", each)
	}
}
