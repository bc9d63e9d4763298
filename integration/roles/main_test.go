package roles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// roles are made for one test: they are the server's, and go when it ends.
func roles(t *testing.T, db *testdb.DB, names ...string) []string {
	t.Helper()
	for i, name := range names {
		names[i] = db.Name + "_" + name
		db.Exec(t, "create role "+quote(names[i]))
	}
	t.Cleanup(func() {
		for _, name := range names {
			db.Exec(t, "drop owned by "+quote(name)+" cascade; drop role "+quote(name))
		}
	})
	return names
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// as is a session of a role, with settings.
func as(t *testing.T, db *testdb.DB, role string, settings ...string) *pgx.Conn {
	t.Helper()
	conn := db.Conn(t)
	for i := 0; i < len(settings); i += 2 {
		if _, err := conn.Exec(t.Context(), "select set_config($1, $2, false)", settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "set role "+quote(role)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// try runs statements in a transaction that is rolled back, to its end.
func try(t *testing.T, conn *pgx.Conn, sql string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), "begin;"+sql+"; set constraints all immediate")
	if _, back := conn.Exec(context.WithoutCancel(t.Context()), "rollback"); back != nil {
		t.Fatal(back)
	}
	return err
}

// code is an error's SQLSTATE; "" for none.
func code(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pg):
		return pg.Code
	default:
		return err.Error()
	}
}

// next is the name of a migration behind n others.
func next(n int) string { return fmt.Sprintf("%04d_more.sql", n+1) }
