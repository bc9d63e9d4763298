package migrations_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

func TestBrokenSets(t *testing.T) {
	t.Parallel()
	const sql = "select 1;"
	for name, set := range map[string]fs.FS{
		"no files":         files(),
		"gap":              files("0001_a.sql", sql, "0003_c.sql", sql),
		"starts at 2":      files("0002_b.sql", sql),
		"starts at 0":      files("0000_a.sql", sql),
		"duplicate":        files("0001_a.sql", sql, "0002_b.sql", sql, "0002_c.sql", sql),
		"no number":        files("a.sql", sql),
		"three digits":     files("001_a.sql", sql),
		"no name":          files("0001_.sql", sql),
		"upper case":       files("0001_A.sql", sql),
		"other ending":     files("0001_a.sql", sql, "0002_b.txt", sql),
		"folder":           files("0001_a.sql", sql, "0002_b.sql/inner", sql),
		"empty file":       files("0001_a.sql", " \n"),
		"ends the attempt": files("0001_a.sql", "create table @schema@.kept (); rollback;"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.NewEmpty(t)
			conn := db.Conn(t)
			_, err := migrations.Up(t.Context(), conn, migrations.Config{Files: set})
			if !errors.Is(err, migrations.ErrBrokenSet) {
				t.Errorf("Up returned %v", err)
			}
			if err := conn.Ping(t.Context()); err != nil || conn.PgConn().TxStatus() != 'I' {
				t.Errorf("the connection was not given back as it came: %v", err)
			}
			if testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = 'lockstep')") {
				t.Error("something was applied")
			}
		})
	}
}

func TestOwnFilesAreWhole(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	result := up(t, db.Conn(t), migrations.Config{})
	names, err := fs.Glob(migrations.Files(), "*")
	if err != nil || len(names) == 0 || len(result.Applied) != len(names) || result.Version != len(names) {
		t.Fatalf("applied %d of %d files, version %d (%v)", len(result.Applied), len(names), result.Version, err)
	}
	for i, migration := range result.Applied {
		if migration.String() != names[i] {
			t.Errorf("applied %s as number %d, want %s", migration, i+1, names[i])
		}
	}
}
