package migrations_test

import (
	"context"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// files makes a set: names and contents by turns.
func files(namesAndContents ...string) fstest.MapFS {
	set := fstest.MapFS{}
	for i := 0; i < len(namesAndContents); i += 2 {
		set[namesAndContents[i]] = &fstest.MapFile{Data: []byte(namesAndContents[i+1])}
	}
	return set
}

// two is a small set that makes a table and fills it.
func two() fstest.MapFS {
	return files(
		"0001_thing.sql", "create table @schema@.thing (name text);",
		"0002_first.sql", "insert into @schema@.thing values (@schema_literal@);")
}

func up(t *testing.T, conn *pgx.Conn, config migrations.Config) migrations.Result {
	t.Helper()
	result, err := migrations.Up(limited(t), conn, config)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// limited ends long before the test binary's own time limit.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// as connects as a role of the test's own, without any right but those granted.
func as(t *testing.T, db *testdb.DB, grants string) *pgx.Conn {
	t.Helper()
	role := "role_of_" + db.Name
	db.Exec(t, "create role "+role)
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role+" cascade; drop role "+role) })
	db.Exec(t, grants+" to "+role)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), "set role "+role); err != nil {
		t.Fatal(err)
	}
	return conn
}
