package roles

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// carriers are how a session carries its tenant.
var carriers = map[string]func(tenant string) []string{
	"setting": func(tenant string) []string { return []string{"lockstep.tenant", tenant} },
	"claim": func(tenant string) []string {
		claims, _ := json.Marshal(map[string]string{"role": "api", "tenant": tenant})
		return []string{"request.jwt.claims", string(claims)}
	},
}

// one reads one value.
func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// refused checks with which SQLSTATE each statement is.
func refused(t *testing.T, conn *pgx.Conn, want string, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := try(t, conn, statement); code(err) != want {
			t.Errorf("%s: %v, want %s", statement, err, want)
		}
	}
}

// Two tenants use the same queue, ordering key and dedupe key under one role, as
// behind a public API, and do not meet.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	for name, carrier := range carriers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			api := roles(t, db, "api")[0]
			db.Exec(t, "select lockstep.grant_tenant($1)", api)
			a, b := as(t, db, api, carrier("a")...), as(t, db, api, carrier("b")...)
			const enqueue = "insert into lockstep.job (kind, tenant, ordering_key, dedupe_key) values ('k', $1, 'key', $2) returning id"
			ofA, ofB := one[int64](t, a, enqueue, "a", "d"), one[int64](t, b, enqueue, "b", "d")
			refused(t, a, "23505", "insert into lockstep.job (kind, tenant, dedupe_key) values ('k', 'a', 'd')")
			if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where stage = 'r'"); n != 2 {
				t.Errorf("%d lanes have a head, want both tenants'", n)
			}
			refused(t, a, "42501",
				"insert into lockstep.job (kind, tenant) values ('k', 'b')", "insert into lockstep.job (kind) values ('k')",
				"insert into lockstep.job (kind, tenant, ordering_key, dedupe_key) values ('k', 'b', 'key', 'd2')",
				"insert into lockstep.job (kind, tenant) values ('k', 'a'), ('k', 'b')",
				"select lockstep.take_key('b', 'key', '', 1, '')", "select lockstep.enter_gate('default', 'b', 'd')",
				"update lockstep.job set tenant = 'a'", "select payload from lockstep.job", "select lockstep.cancel(1)")
			refused(t, a, "LS005", fmt.Sprintf("select lockstep.tenant_status(%d)", ofB), fmt.Sprintf("select lockstep.tenant_cancel(%d)", ofB),
				fmt.Sprintf("select lockstep.tenant_replay(%d)", ofB), fmt.Sprintf("select lockstep.tenant_discard(%d)", ofB))
			for what, sql := range map[string]string{
				"the table":   "select array_agg(id) from lockstep.job",
				"tenant_jobs": "select array_agg(id) from lockstep.tenant_jobs()",
			} {
				if got := one[[]int64](t, a, sql); len(got) != 1 || got[0] != ofA {
					t.Errorf("%s shows a %v, want %d", what, got, ofA)
				}
			}
			if said := one[string](t, a, "select lockstep.tenant_cancel($1)", ofA); said != "cancelled" {
				t.Error(said)
			}
			if state := one[string](t, a, "select state from lockstep.tenant_status($1)", ofA); state != "cancelled" {
				t.Error(state)
			}
			expectTaken(t, db, a, b, ofB)
		})
	}
}

// expectTaken sees that a can't name ids: neither one that b's job has or had, which
// would keep b's dead letter from being replayed, nor one that b has drawn.
func expectTaken(t *testing.T, db *testdb.DB, a, b *pgx.Conn, ofB int64) {
	t.Helper()
	take := fmt.Sprintf("insert into lockstep.job (id, kind, tenant) values (%d, 'k', 'a')", ofB)
	drawn := fmt.Sprintf("insert into lockstep.job (id, kind, tenant) values (%d, 'k', 'a')", testdb.Value[int64](t, db, "select lockstep.next_id()"))
	refused(t, a, "42501", take, drawn)
	db.Exec(t, "select lockstep.skip_head('default', 'b', 'key')")
	refused(t, a, "42501", take, "insert into lockstep.job (id, kind, tenant) values (9000000000, 'k', 'a')")
	if said := one[string](t, b, "select lockstep.tenant_replay($1)", ofB); said != "replayed" {
		t.Errorf("b's letter: %s", said)
	}
	one[string](t, b, "select lockstep.tenant_cancel($1)", ofB)
	db.Exec(t, "select lockstep.due()") // its lane goes on
	refused(t, a, "42501", take)
}

// A session without a tenant, or with two, is nobody's.
func TestNobodysSession(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	api := roles(t, db, "api")[0]
	db.Exec(t, "select lockstep.grant_tenant($1)", api)
	db.Exec(t, "select lockstep.enqueue('k'), lockstep.enqueue('k', tenant => 'a')")
	for name, settings := range map[string][]string{
		"none":          {},
		"empty":         {"lockstep.tenant", ""},
		"no claim":      {"request.jwt.claims", `{"role": "api"}`},
		"an empty one":  {"request.jwt.claims", `{"tenant": ""}`},
		"contradictory": {"request.jwt.claims", `{"tenant": "b"}`, "lockstep.tenant", "a"},
	} {
		conn := as(t, db, api, settings...)
		if n := one[int](t, conn, "select count(*) from lockstep.tenant_jobs()") + one[int](t, conn, "select count(id) from lockstep.job"); n != 0 {
			t.Errorf("%s: sees %d jobs", name, n)
		}
		refused(t, conn, "42501", "insert into lockstep.job (kind) values ('k')", "insert into lockstep.job (kind, tenant) values ('k', 'a')")
		refused(t, conn, "LS005", "select lockstep.tenant_cancel(2)", "select lockstep.tenant_status(1)")
	}
	conn := as(t, db, api, "request.jwt.claims", "no JSON")
	refused(t, conn, "22P02", "insert into lockstep.job (kind, tenant) values ('k', 'a')", "select lockstep.tenant_jobs()")
}

// C97: names and values with SQL in them are data: of roles, tenants, keys.
func TestC97NamesAreData(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for i, name := range []string{`a'b`, `a"b`, `a;--`, `%`, `_`, `$1`, `\`, "a\nb", "\u202eabc", ` a b `, `%I`, `$lockstep$`} {
		role := roles(t, db, name)[0]
		db.Exec(t, "select lockstep.grant_tenant($1)", role)
		for carrier, settings := range carriers {
			conn := as(t, db, role, settings(name)...)
			id := one[int64](t, conn, "insert into lockstep.job (kind, tenant, queue, ordering_key, dedupe_key) values ($2, $1, $2, $1, $3) returning id", name, name, name+carrier)
			if got := one[string](t, conn, "select tenant || queue || ordering_key from lockstep.tenant_status($1)", id); got != name+name+name {
				t.Errorf("%q by %s: the job has %q", name, carrier, got)
			}
			if n := one[int](t, conn, "select count(*) from lockstep.tenant_jobs()"); n == 0 || n > 2 {
				t.Errorf("%q: sees %d jobs", name, n)
			}
		}
		if i%2 == 0 {
			db.Exec(t, "select lockstep.revoke_role($1)", role)
			db.Exec(t, "select lockstep.grant_reader($1, true)", role)
		}
	}
	for _, statement := range []string{"select lockstep.grant_producer('nobody''s role')", "select lockstep.revoke_role('nobody''s role')"} {
		if err := try(t, db.Conn(t), statement); code(err) != "LS002" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	both := roles(t, db, "both")[0]
	db.Exec(t, "select lockstep.grant_worker($1)", both)
	if _, err := db.Conn(t).Exec(t.Context(), "select lockstep.grant_tenant($1)", both); code(err) != "LS002" {
		t.Errorf("a worker that is a tenant's: %v", err)
	}
}
