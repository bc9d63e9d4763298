package roles

import (
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// A dump carries policies to a cluster where roles have other numbers, so what
// one is called tells nothing. One that a revoke left behind would let the role,
// a tenant's by then, see every tenant's jobs.
func TestPoliciesAreFoundWhateverTheirNames(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	names := roles(t, db, "app", "api")
	app, api := names[0], names[1]
	const ofRole = "select p.polname from pg_policy p where p.polrelid = 'lockstep.job'::regclass and p.polroles = array[$1::regrole::oid]"
	db.Exec(t, "select lockstep.grant_producer($1)", app)
	db.Exec(t, "alter policy "+quote(testdb.Value[string](t, db, ofRole, quote(app)))+" on lockstep.job rename to role_"+
		testdb.Value[string](t, db, "select $1::regrole::oid::text", quote(api)))
	db.Exec(t, "select lockstep.grant_tenant($1)", api)
	a := as(t, db, api, "lockstep.tenant", "a")
	one[int64](t, a, "insert into lockstep.job (kind, tenant) values ('k', 'a') returning id")

	db.Exec(t, "select lockstep.revoke_role($1)", app)
	db.Exec(t, "select lockstep.grant_tenant($1)", app)
	b := as(t, db, app, "lockstep.tenant", "b")
	if n := one[int](t, b, "select count(id) from lockstep.job"); n != 0 {
		t.Errorf("a tenant's session sees %d jobs of another", n)
	}
	refused(t, b, "42501", "insert into lockstep.job (kind, tenant) values ('k', 'a')")
	if n := testdb.Value[int](t, db, "select count(*) from pg_policy where polrelid = 'lockstep.job'::regclass"); n != 2 {
		t.Errorf("%d policies, want one of each role", n)
	}
}

// What a role has by another, it has: a tenant's role that inherits a producer's
// would see every tenant's jobs, and so would one that policies do not bind.
func TestATenantsRoleHasNoOtherPartByAnother(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	names := roles(t, db, "app", "api", "free")
	app, api, free := names[0], names[1], names[2]
	db.Exec(t, "grant "+quote(app)+" to "+quote(api))
	db.Exec(t, "alter role "+quote(free)+" bypassrls")
	c := db.Conn(t)
	for _, order := range [][]string{{"producer", app, "tenant", api}, {"tenant", api, "producer", app}} {
		db.Exec(t, "select lockstep.grant_"+order[0]+"($1)", order[1])
		refused(t, c, "LS002", "select lockstep.grant_"+order[2]+"('"+order[3]+"')", "select lockstep.grant_tenant('"+free+"')")
		db.Exec(t, "select lockstep.revoke_role($1)", order[1])
	}
	db.Exec(t, "select lockstep.grant_producer($1), lockstep.grant_worker($2)", app, api) // but other parts are had together
	db.Exec(t, "revoke "+quote(app)+" from "+quote(api))
	db.Exec(t, "select lockstep.revoke_role($1), lockstep.grant_tenant($1)", api)
}
