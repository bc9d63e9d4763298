package migrations_test

import (
	"errors"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

func TestDown(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	config, other := migrations.Config{Files: two()}, migrations.Config{Files: two(), Schema: "other"}
	up(t, conn, config)
	up(t, conn, other)

	err := migrations.Down(t.Context(), conn, config, false)
	if !errors.Is(err, migrations.ErrNotConfirmed) {
		t.Errorf("unconfirmed: %v", err)
	}
	db.Exec(t, "select from lockstep.thing")

	for range 2 { // the second time there is nothing to drop
		if err := migrations.Down(t.Context(), conn, config, migrations.DropEverything); err != nil {
			t.Error(err)
		}
		if testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = 'lockstep')") {
			t.Error("the schema is still there")
		}
	}
	db.Exec(t, "select from other.thing")
	up(t, conn, config)
}

func TestDownLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	db.Exec(t, "create schema theirs")
	up(t, conn, migrations.Config{Files: two(), Schema: "public"})
	for _, schema := range []string{"theirs", "public"} {
		err := migrations.Down(t.Context(), conn, migrations.Config{Files: two(), Schema: schema}, migrations.DropEverything)
		if !errors.Is(err, migrations.ErrNotOurs) {
			t.Errorf("%s: %v", schema, err)
		}
		if !testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = $1)", schema) {
			t.Errorf("%s was dropped", schema)
		}
	}
}
