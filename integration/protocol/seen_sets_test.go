package protocol_test

import (
	"testing"
	"time"
)

func TestSeen_SetsAreArraysNotJoinedCTEs(t *testing.T) {
	prove(t, rule{
		must: "sets are worked on as arrays: a join of CTEs on a table never analysed takes time by the square",
		without: map[string]cut{"arrays": {[]edit{{
			"from unnest(ids, stages, turns) u(id, stage, turn) where j.id = u.id;",
			`from (with entered as materialized (select e.id from @schema@.job e where e.stage = 'e' and e.enqueued_xid = pg_current_xact_id()),
			            seat as materialized (select e.id, row_number() over (order by e.id) as n from @schema@.job e
			                                   where e.stage = 'e' and e.enqueued_xid = pg_current_xact_id())
			       select entered.id, stages[seat.n] as stage, turns[seat.n] as turn from entered join seat on seat.id = entered.id) u
			 where j.id = u.id;`,
		}}, "more than 32 times as much as"}},
		scene: func(s *scene) {
			s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
			place := func(n int) time.Duration {
				c := s.enter()
				c.exec("begin")
				defer c.exec("rollback")
				c.exec("insert into lockstep.job (kind, ordering_key) select 'k', (i % 150)::text from generate_series(1, $1::int) i", n)
				return c.cpu(func() { c.exec("set constraints all immediate") })
			}
			place(200) // the first one reads the catalog
			few, many := place(200), place(4000)
			if many > 32*few { // of 20 times the jobs; by the square it is 400 times
				s.failf("placing 4,000 jobs took %v of a CPU, more than 32 times as much as 200: %v", many, few)
			}
		},
	})
}

func TestSeen_AClaimIsAHotUpdate(t *testing.T) {
	nullable := func(column, def string) edit {
		return edit{column + " not null default " + def + ",", column + ","}
	}
	prove(t, rule{
		must: "what a claim writes is in no index, and has its full width before: every claim is a HOT update",
		without: map[string]cut{
			"width": {[]edit{
				nullable("claimed_at       timestamptz", "'-infinity'"),
				nullable("held_since       timestamptz", "'-infinity'"),
				nullable("lease            interval", "'0'"),
			}, "HOT"},
			"lease in an index": {[]edit{{
				"create index job_settled",
				"create index job_lease on @schema@.job (lease_until) where stage = 'r';\ncreate index job_settled",
			}}, "HOT"},
			"fillfactor": {[]edit{{"fillfactor = 50,", "fillfactor = 100,"}}, "HOT"},
		},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, ordering_key) select 'k', case when i % 2 = 0 then i::text end from generate_series(1, 2000) i")
			s.exec("vacuum lockstep.job") // the versions before the placing
			// In one transaction, so that nothing makes room meanwhile.
			claimer := s.enter()
			claimer.exec("begin")
			for range 100 {
				want("jobs claimed", len(claimer.claim(20)), 20)
			}
			const counted = "from pg_stat_xact_user_tables where relid = 'lockstep.job'::regclass"
			want("updates", value[int64](claimer, "select n_tup_upd "+counted), 2000)
			if hot := value[int64](claimer, "select n_tup_hot_upd "+counted); hot < 1900 {
				s.failf("%d of 2,000 claims were HOT", hot)
			}
		},
	})
}
