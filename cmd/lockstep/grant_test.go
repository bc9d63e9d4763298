package main

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestGrant(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	role := db.Name + "_cli"
	db.Exec(t, "create role "+role)
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role+"; drop role "+role) })
	may := func(function string) bool {
		return testdb.Value[bool](t, db, "select has_function_privilege($1, $2::regprocedure, 'execute')", role, "lockstep."+function)
	}
	for _, test := range []struct{ part, says, function string }{
		{"producer", "producer", "enqueue_many(jsonb)"},
		{"worker", "worker", "assert_claim(bigint, bigint)"},
		{"reader", "reader", "list_blocked(text, bigint, integer)"},
		{"reader --payload", "reader with payload", "show_dead(bigint)"},
		{"operator", "operator", "cancel(bigint)"},
	} {
		args := append([]string{"grant"}, strings.Fields(test.part)...)
		c.run(t, append(args, role)...).want(t, exitOK).out(t, role+": "+test.says+"\n")
		if !may(test.function) {
			t.Errorf("a %s may not call %s", test.part, test.function)
		}
	}
	c.run(t, "grant", "tenant", role).want(t, exitRefused, "can't be both")
	c.run(t, "revoke", role).want(t, exitOK).out(t, role+": revoked\n")
	if may("cancel(bigint)") {
		t.Error("it may still cancel")
	}
	c.run(t, "grant", "tenant", role).want(t, exitOK)
	c.run(t, "grant", "worker", "no such role").want(t, exitRefused, "there is no role")
	c.run(t, "grant", "worker", "").want(t, exitUsage, "role")
}

// TestAReaderSeesWhereAJobStands, though not what it carries.
func TestAReaderSeesWhereAJobStands(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	role := db.Name + "_reads"
	db.Exec(t, "create role "+role+" login")
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role+"; drop role "+role) })
	db.Exec(t, "select lockstep.grant_reader($1)", role)
	on(db).run(t, "enqueue", "--kind", "k", "--delay", "1h").want(t, exitOK)
	url := strings.Replace(db.URL, "://postgres@", "://"+role+"@", 1)
	if r := (call{}).run(t, "status", "1", "--database-url", url).want(t, exitOK); !strings.HasPrefix(r.stdout, "1\tscheduled: ") {
		t.Errorf("stdout = %q", r.stdout)
	}
}
