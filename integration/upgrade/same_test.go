package upgrade_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// catalogue is all that a schema is made of, a line each, by what the catalogue
// tells: no numbers of objects, no names of partitions, which are named by days.
const catalogue = `select coalesce(string_agg(line, e'\n' order by line), '') from (
	select 'table ' || c.relname || ' ' || c.relkind::text || ' options ' || coalesce(array_to_string(c.reloptions, ','), '')
	       || ' acl ' || coalesce(c.relacl::text, '')
	  from pg_class c where c.relnamespace = 'lockstep'::regnamespace and c.relkind in ('r', 'p', 'S')
	union all
	select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
	       || case when a.attnotnull then ' not null' else '' end || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
	       || ' identity ' || a.attidentity::text || ' generated ' || a.attgenerated::text || coalesce(' collate ' || l.collname, '')
	       || ' storage ' || a.attstorage::text || coalesce(' acl ' || a.attacl::text, '')
	  from pg_attribute a join pg_class c on c.oid = a.attrelid
	  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
	  left join pg_collation l on l.oid = a.attcollation
	 where c.relnamespace = 'lockstep'::regnamespace and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped
	union all
	select 'sequence ' || s.sequencename || ' ' || s.data_type::text || ' ' || s.increment_by || ' ' || s.cache_size || ' ' || s.cycle
	  from pg_sequences s where s.schemaname = 'lockstep'
	union all
	select 'index ' || pg_get_indexdef(i.indexrelid)
	  from pg_index i join pg_class c on c.oid = i.indrelid where c.relnamespace = 'lockstep'::regnamespace
	union all
	select 'constraint ' || coalesce(c.relname, '') || ' ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
	  from pg_constraint k left join pg_class c on c.oid = k.conrelid where k.connamespace = 'lockstep'::regnamespace and k.contype <> 'n'
	union all
	select 'trigger ' || pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
	  from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'lockstep'::regnamespace and not t.tgisinternal
	union all
	select 'view ' || v.viewname || ' ' || v.definition from pg_views v where v.schemaname = 'lockstep'
	union all
	select 'function ' || pg_get_functiondef(p.oid) || ' acl ' || coalesce(p.proacl::text, '')
	  from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and p.prokind = 'f'
	union all
	select 'type ' || y.typname || ' ' || y.typtype::text
	  from pg_type y where y.typnamespace = 'lockstep'::regnamespace and y.typtype in ('e', 'd')
) lines(line) where line !~ 'finished_job_\d{8}'`

const advice = `an upgraded database is not what a new installation is (-new +upgraded).
What was released is frozen: files of tables are never edited, new columns, tables and indexes come in new numbered files,
a new column stands at the end of its table; functions are made with create or replace in files that begin with "-- replaceable",
and one whose arguments change is dropped by its old arguments in the same file first. See migrations/doc.go.`

// TestUpgradedIsTheSame compares a database that was upgraded with one that was
// installed anew.
func TestUpgradedIsTheSame(t *testing.T) {
	t.Parallel()
	upgraded, fresh := coreDB(t), testdb.New(t)
	upgraded.Exec(t, "insert into lockstep.job (kind, ordering_key) select 'k', i % 3 from generate_series(1, 9) i")
	upgraded.Migrate(t, migrations.Config{})
	want := strings.Split(testdb.Value[string](t, fresh, catalogue), "\n")
	got := strings.Split(testdb.Value[string](t, upgraded, catalogue), "\n")
	if len(want) < 200 {
		t.Fatalf("the catalogue has only %d lines", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", advice, diff)
	}
	state, err := migrations.Status(t.Context(), upgraded.Conn(t), migrations.Config{})
	if err != nil || len(state.Problems) > 0 {
		t.Errorf("after the upgrade: %v, problems %v", err, state.Problems)
	}
	if n := testdb.Value[int](t, upgraded, "select count(*) from lockstep.job"); n != 9 {
		t.Errorf("%d of 9 jobs are left", n)
	}
}

// TestSameFindsADifference: the comparison sees each kind of thing.
func TestSameFindsADifference(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for _, change := range []string{
		"alter table lockstep.job add column more text",
		"alter table lockstep.job alter column kind set default 'k'",
		"alter table lockstep.job set (fillfactor = 60)",
		"create index on lockstep.job (kind)",
		"alter table lockstep.job drop constraint job_priority_range",
		"alter table lockstep.job disable trigger job_size",
		"alter sequence lockstep.turn cache 5",
		"create table lockstep.more ()",
		"create or replace view lockstep.queues as select q.name, q.on_dead, q.backoff_base, q.backoff_factor, q.backoff_cap * 2 as backoff_cap, q.dead_retention from lockstep.queue q",
		"create or replace function lockstep.nobody() returns uuid language sql immutable return null::uuid",
		"create function lockstep.more() returns int language sql return 1",
	} {
		before := testdb.Value[string](t, db, catalogue)
		db.Exec(t, "begin; "+change)
		after := testdb.Value[string](t, db, catalogue)
		db.Exec(t, "rollback")
		if before == after {
			t.Errorf("not seen: %s", change)
		}
	}
}
