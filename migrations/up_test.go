package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

func TestUpAppliesWhatIsPending(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	set := two()
	if result := up(t, conn, migrations.Config{Files: set}); len(result.Applied) != 2 || result.Version != 2 {
		t.Errorf("first: %+v", result)
	}
	set["0003_more.sql"] = files("", "insert into @schema@.thing values ('third')")[""]
	if result := up(t, conn, migrations.Config{Files: set}); len(result.Applied) != 1 || result.Version != 3 || result.Applied[0].Name != "more" {
		t.Errorf("second: %+v", result)
	}
	if result := up(t, conn, migrations.Config{Files: set}); len(result.Applied) != 0 || result.Version != 3 {
		t.Errorf("third: %+v", result)
	}
	if got := testdb.Value[string](t, db, "select string_agg(name, ' ') from lockstep.thing"); got != "lockstep third" {
		t.Errorf("the files left %q", got)
	}
}

// TestAllOrNothing has the second file fail: the first is undone, and the error
// says where.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	set := files("0001_good.sql", "create table @schema@.good ();", "0002_bad.sql", "select 1;\n\nselect\n  'ü', nothing;")
	_, err := migrations.Up(t.Context(), conn, migrations.Config{Files: set})
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || !strings.HasPrefix(err.Error(), "0002_bad.sql:4: ") {
		t.Errorf("Up returned %v", err)
	}
	if testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = 'lockstep')") {
		t.Error("the first file stayed")
	}
	up(t, conn, migrations.Config{Files: two()})
}

// TestCurrentSchemaTakesNoLock has another session hold the strongest lock
// there is on what Up would change.
func TestCurrentSchemaTakesNoLock(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	config := migrations.Config{Files: two()}
	conn := db.Conn(t)
	up(t, conn, config)
	db.Exec(t, "begin; lock table lockstep.thing; lock table lockstep.migration in exclusive mode;"+
		"select pg_advisory_xact_lock(hashtextextended('lockstep migration lockstep', 0))")
	up(t, conn, config)
}

func TestNeedsNoSuperuser(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string]func(db *testdb.DB) string{
		"may create schemas": func(db *testdb.DB) string { return "grant create on database " + db.Name },
		"owns the schema": func(db *testdb.DB) string {
			return "create schema lockstep; alter schema lockstep owner to role_of_" + db.Name + "; grant temporary on database " + db.Name
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.NewEmpty(t)
			conn := as(t, db, grants(db))
			if result := up(t, conn, migrations.Config{}); len(result.Applied) == 0 {
				t.Error("nothing was applied")
			}
			if err := migrations.Down(limited(t), conn, migrations.Config{}, migrations.DropEverything); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWithoutRights(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := as(t, db, "grant temporary on database "+db.Name)
	_, err := migrations.Up(t.Context(), conn, migrations.Config{Files: two()})
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || postgres.Code != "42501" {
		t.Errorf("Up returned %v", err)
	}
}

func TestRefusesAnOpenTransaction(t *testing.T) {
	t.Parallel()
	conn := testdb.NewEmpty(t).Conn(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), conn, migrations.Config{Files: two()}); err == nil {
		t.Error("migrated inside the caller's transaction")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionSettings has settings of the session's that would change what the
// files mean, or make every lock time out.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	_, err := conn.Exec(t.Context(), `
		create schema trap; create function trap.now() returns timestamptz language sql as 'select null::timestamptz';
		set search_path = trap, pg_catalog; set default_transaction_isolation = serializable;
		set default_transaction_read_only = on; set statement_timeout = 1000; set lock_timeout = 1`,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	up(t, conn, migrations.Config{Files: files("0001_a.sql", "create table @schema@.a as select now() as at, current_setting('transaction_isolation') as level")})
	if !testdb.Value[bool](t, db, "select at is not null and level = 'read committed' from lockstep.a") {
		t.Error("the session's settings were in force")
	}
	var path string
	if err := conn.QueryRow(t.Context(), "show search_path").Scan(&path); err != nil || path != "trap, pg_catalog" {
		t.Errorf("the session's search_path is now %q (%v)", path, err)
	}
}
