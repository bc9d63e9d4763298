package producers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestForcedRowSecurity: it hides the rows from their own triggers, which is
// an error and never a lost job.
func TestForcedRowSecurity(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	owner, producer := db.Name+"_owner", db.Name+"_producer" // roles are the server's
	db.Exec(t, "create role "+owner+"; create role "+producer+" bypassrls;"+
		"grant "+owner+" to current_user; grant create on database "+db.Name+" to "+owner)
	t.Cleanup(func() { dropRoles(t, db, owner, producer) })
	owning := newClient(t, db)
	owning.do("set role " + owner)
	if _, err := migrations.Up(t.Context(), owning.Conn, migrations.Config{Schema: "owned"}); err != nil {
		t.Fatal(err)
	}
	owning.do("select owned.grant_producer('" + producer + "'); alter table owned.job enable row level security; alter table owned.job force row level security")
	c := newClient(t, db)
	c.do("set role " + producer)
	for name, insert := range map[string]string{
		"one":  "insert into owned.job (kind, ordering_key) values ('k', 'a')",
		"many": "insert into owned.job (kind, ordering_key) values ('k', 'a'), ('k', 'b')",
	} {
		if refused := refusal(t, c.try(insert)); refused == nil || refused.Code != "LS007" {
			t.Errorf("%s: got %v, want LS007", name, refused)
		}
	}
	if n := testdb.Value[int](t, db, "select count(*) from owned.job"); n != 0 {
		t.Errorf("%d jobs are left of what was refused", n)
	}
	state, err := migrations.Status(t.Context(), db.Conn(t), migrations.Config{Schema: "owned"})
	if err != nil || !errors.Is(errors.Join(state.Problems...), migrations.ErrRowSecurity) {
		t.Errorf("Status says %v, %v", state.Problems, err)
	}
}

// dropRoles drops what belongs to roles in this test's database, and them.
func dropRoles(t *testing.T, db *testdb.DB, roles ...string) {
	conn, err := pgx.Connect(context.Background(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, role := range roles {
		if _, err := conn.Exec(context.Background(), "drop owned by "+role+" cascade; drop role "+role); err != nil {
			t.Error(err)
		}
	}
}
