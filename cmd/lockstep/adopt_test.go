package main

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.require_home(); update lockstep.home set database_oid = 1")
	c := on(db)
	if r := c.run(t, "adopt").want(t, exitOK); !strings.Contains(r.stdout, "is at home here from now on") {
		t.Errorf("adopting a copy says %q", r.stdout)
	}
	db.Exec(t, "select lockstep.require_home()")
	if r := c.run(t, "adopt").want(t, exitOK); !strings.Contains(r.stdout, "was at home here already") {
		t.Errorf("adopting it again says %q", r.stdout)
	}
	if r := c.run(t, "adopt", "--json").want(t, exitOK); r.stdout != "{\"adopted\":false}\n" {
		t.Errorf("as JSON it says %q", r.stdout)
	}
	c.run(t, "enqueue", "--kind", "k", "--queue", "q").want(t, exitOK)
	if r := c.run(t, "adopt", "--hold").want(t, exitOK); !strings.Contains(r.stdout, "paused") {
		t.Errorf("with --hold it says %q", r.stdout)
	}
	if !testdb.Value[bool](t, db, "select exists (select from lockstep.pause where queue = 'q')") {
		t.Error("its queue is not paused")
	}
}
