package roles

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// forOwner are functions for callers that are in no part: the owner's alone.
var forOwner = []string{
	"grant_producer", "grant_worker", "grant_operator", "grant_reader", "grant_tenant", "revoke_role", "secure", "adopt",
	"job_enter", "job_place", "job_signal", "job_size", "note_commit", // triggers
}

// TestEveryFunctionHasItsPart: a new function for callers has to be put into a
// part, in part_functions of the migrations, or into the list above.
func TestEveryFunctionHasItsPart(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for what, query := range map[string]string{
		"is for callers and in no part (part_functions)": `
			select p.proname from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and p.proname <> all ($1)
			   and not exists (select from unnest('{everyone,producer,keys,worker,operator,reader,payload,tenant}'::text[]) u(part)
			                    where p.proname = any (lockstep.part_functions(u.part)))
			   and not exists (select from pg_proc q where q.pronamespace = p.pronamespace and q.oid <> p.oid
			                      and pg_get_functiondef(q.oid) ~ ('lockstep"?\.' || p.proname || '\('))
			   and not exists (select from pg_attrdef d where pg_get_expr(d.adbin, d.adrelid) ~ ('lockstep"?\.' || p.proname || '\('))`,
		"is in a part and is not there": `
			select f from unnest('{everyone,producer,keys,worker,operator,reader,payload,tenant}'::text[]) u(part), unnest(lockstep.part_functions(u.part)) f
			 where f <> all ($1) and not exists (select from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and p.proname = f)`,
		"may be called by PUBLIC": `
			select p.proname from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
			 where p.pronamespace = 'lockstep'::regnamespace and a.grantee = 0 and $1::text[] is not null`,
		"has other rights than it should": `
			select p.proname from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and $1::text[] is not null
			   and p.prosecdef <> (p.prorettype = 'trigger'::regtype
			     or not lockstep.caller_rights(p.proname) and exists (select from unnest('{keys,worker,operator,reader,payload,tenant}'::text[]) u(part)
			          where p.proname = any (lockstep.part_functions(u.part))))
			   and p.proname not in ('schema_version', 'require_home')`,
		"does not pin its search_path": `
			select p.proname from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and $1::text[] is not null
			   and p.prosqlbody is null and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)`,
	} {
		rows, _ := db.Conn(t).Query(t.Context(), query, forOwner)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			t.Errorf("the function %s %s", name, what)
		}
	}
}

// A reader can read every view, whatever functions are in it, and none of what
// jobs carry.
func TestReaderReadsEveryView(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	reader := roles(t, db, "reader")[0]
	db.Exec(t, "select lockstep.grant_reader($1)", reader)
	db.Exec(t, "select lockstep.enqueue('k'), lockstep.enqueue('k', ordering_key => 'a'), lockstep.start_replay()")
	conn := as(t, db, reader)
	rows, _ := db.Conn(t).Query(t.Context(), `
		select format('select %s from %s', string_agg(quote_ident(a.attname), ', '), c.oid::regclass)
		  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
		 where c.relnamespace = 'lockstep'::regnamespace and c.relkind = 'v'
		   and a.attname not like '%payload%' and a.attname not in ('headers', 'result') group by c.oid`)
	queries, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(queries) < 10 {
		t.Fatal(queries, err)
	}
	for _, query := range queries {
		if err := try(t, conn, query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// What was granted holds after an upgrade, and for what is new in it.
func TestGrantsOutliveAnUpgrade(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	worker := roles(t, db, "worker")[0]
	db.Exec(t, "select lockstep.grant_worker($1)", worker)
	db.Exec(t, "drop function lockstep.sweep") // made again by the upgrade
	set := testdb.Changed(t, testdb.Edit{File: "0014_sweep.sql", Old: "-- replaceable\n", New: "-- replaceable\n-- changed\n"})
	more := *set["0001_names.sql"]
	more.Data = []byte("create function @schema@.more() returns int language sql return 1")
	set[next(len(set))] = &more
	db.Migrate(t, migrations.Config{Files: set})
	conn := as(t, db, worker)
	if err := try(t, conn, "select lockstep.sweep()"); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
	if err := try(t, conn, "select lockstep.more()"); code(err) != "42501" {
		t.Errorf("a function that is new and in no part: %v", err)
	}
	db.Exec(t, "select lockstep.revoke_role($1)", worker)
	if err := try(t, conn, "select lockstep.sweep()"); code(err) != "42501" {
		t.Errorf("after the revoke: %v", err)
	}
}
