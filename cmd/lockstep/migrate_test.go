package main

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMigrateUpStatusDown(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	c := on(db)
	c.env["LOCKSTEP_SCHEMA"] = `my "Jobs"`

	c.run(t, "migrate", "status").want(t, exitFailure, "1 problem, listed")
	if r := c.run(t, "migrate", "up").want(t, exitOK); strings.Contains(r.stdout, "(0 applied now)") {
		t.Errorf("the first up applied nothing: %s", r.stdout)
	}
	if r := c.run(t, "migrate", "up").want(t, exitOK); !strings.Contains(r.stdout, "(0 applied now)") {
		t.Errorf("the second up applied something: %s", r.stdout)
	}
	if r := c.run(t, "migrate", "status").want(t, exitOK); !strings.Contains(r.stdout, "applied  0001_") {
		t.Errorf("status does not list what was applied:\n%s", r.stdout)
	}
	c.run(t, "enqueue", "--kind", "k").want(t, exitOK)

	c.run(t, "migrate", "down").want(t, exitUsage, "--drop-everything")
	if n := testdb.Value[int](t, db, `select count(*) from "my ""Jobs""".job`); n != 1 {
		t.Fatalf("%d jobs after a down that was not confirmed, want 1", n)
	}
	c.run(t, "migrate", "down", "--drop-everything").want(t, exitOK)
	if testdb.Value[bool](t, db, `select exists (select from pg_namespace where nspname = 'my "Jobs"')`) {
		t.Error("the schema is still there")
	}
}

func TestMigrateStatusFindsATriggerThatIsOff(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "alter table lockstep.job disable trigger user")
	r := on(db).run(t, "migrate", "status").want(t, exitFailure, "problem")
	if !strings.Contains(r.stdout, "trigger") {
		t.Errorf("status does not name the trigger:\n%s", r.stdout)
	}
}

func TestMigrateRefusesASchemaName(t *testing.T) {
	t.Parallel()
	on(testdb.NewEmpty(t)).run(t, "migrate", "up", "--schema", strings.Repeat("x", 64)).want(t, exitUsage, "64 bytes")
}
