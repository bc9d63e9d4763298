package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

func TestSeen_ADayWithoutPartitionFailsNoFinish(t *testing.T) {
	prove(t, rule{
		must: "the history has a default partition: a day that nobody prepared fails no finish",
		without: map[string]cut{"default partition": {[]edit{
			{"create table @schema@.finished_job_default partition of @schema@.finished_job default;", ""},
			{"alter table @schema@.finished_job_default replica identity full;", ""},
		}, "no partition of relation"}},
		scene: func(s *scene) {
			s.exec(`do $$ declare day regclass; begin
				for day in select inhrelid::regclass from pg_inherits
				            where inhparent = 'lockstep.finished_job'::regclass and inhrelid::regclass::text ~ '\d{8}$' loop
					execute format('drop table %s', day);
				end loop; end $$`)
			s.put("", "a")
			want("finish", s.finish(store.Completed, s.claimOne()), "done")
			want("history", value[int64](s.session, "select count(*) from lockstep.finished_job"), 1)
		},
	})
}

func TestSeen_DroppingHistoryStandsBeforeNobody(t *testing.T) {
	prove(t, rule{
		must: "upkeep waits 50 ms for a partition's lock and tries again later: a drop behind a reader would stall every finish",
		without: map[string]cut{"lock_timeout": {[]edit{{
			"set lock_timeout = '50ms'\nset timezone", "set lock_timeout = 0\nset timezone",
		}}, waited}},
		scene: func(s *scene) {
			reader, upkeep := s.enter(), s.enter()
			s.exec("select lockstep.make_partition((clock_timestamp() - interval '10 days')::date)")
			s.put("", "a")
			job := s.claimOne()
			reader.exec("begin; select count(*) from lockstep.finished_job")

			keeping := s.start(upkeep, "select lockstep.upkeep()")
			keeping.waits()
			s.exec("set lock_timeout = '1s'")
			want("finish", s.finish(store.Completed, job), "done")
			must("upkeep", keeping.wait())

			reader.exec("commit")
			kept, err := s.store.Upkeep(s.t.Context())
			must("upkeep", err)
			want("partitions dropped once the reader has gone", kept.PartitionsDropped, 1)
		},
	})
}

func TestSeen_UpkeepPassesOverRowsThatSomebodyHas(t *testing.T) {
	prove(t, rule{
		must: "upkeep passes over old rows that another transaction has locked: it would fail, and prepare no partitions, for as long as that is open",
		without: map[string]cut{
			"attempts":    {[]edit{{"order by a.ended_at limit 5000 for update skip locked)", "order by a.ended_at limit 5000)"}}, "55P03"},
			"strays":      {[]edit{{"- @schema@.retention() limit 5000 for update skip locked));\n  get diagnostics strays", "- @schema@.retention() limit 5000));\n  get diagnostics strays"}}, "55P03"},
			"dispatchers": {[]edit{{"- '1 day'::interval for update skip locked));", "- '1 day'::interval));"}}, "55P03"},
			"replays":     {[]edit{{"where o.ended_at < clock_timestamp() - @schema@.retention() for update skip locked));", "where o.ended_at < clock_timestamp() - @schema@.retention()));"}}, "55P03"},
		},
		scene: func(s *scene) {
			s.dead("a1")
			s.replayAll(1)
			s.exec(`select lockstep.cancel_replay(id) from lockstep.replays;
				update lockstep.replay_run set ended_at = ended_at - interval '30 days';
				insert into lockstep.attempt (job_id, fence, attempt, worker, claimed_at, ended_at, outcome)
				select 0, 0, 1, gen_random_uuid(), clock_timestamp() - interval '30 days', clock_timestamp() - interval '30 days', 'failed';
				insert into lockstep.finished_job select (jsonb_populate_record(null::lockstep.finished_job,
				  to_jsonb(d) || jsonb_build_object('finished_at', d.died_at - interval '30 days', 'outcome', 'completed'))).* from lockstep.dead_job d`)
			s.exec("select lockstep.register(gen_random_uuid(), 'gone', '{default}', '{k}', '30 s')")
			s.exec("update lockstep.dispatcher set seen_at = seen_at - interval '30 days'")
			const old = "select (select count(*) from lockstep.attempt where job_id = 0) + (select count(*) from lockstep.finished_job_default)" +
				" + (select count(*) from lockstep.dispatcher) + (select count(*) from lockstep.replay_run)"
			reader := s.enter()
			reader.exec("begin; select from lockstep.attempt for update; select from lockstep.finished_job_default for update")
			reader.exec("select from lockstep.dispatcher for update; select from lockstep.replay_run for update")
			s.exec("select lockstep.upkeep()")
			want("old rows that somebody has", value[int64](s.session, old), 4)
			reader.exec("commit")
			s.exec("select lockstep.upkeep()")
			want("old rows afterwards", value[int64](s.session, old), 0)
		},
	})
}

// A publication of all tables, as those that stream changes make, has the
// history too.
func TestUpkeepOfAPublishedHistory(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("create publication everything for all tables")
		s.put("", "a")
		want("finish", s.finish(store.Completed, s.claimOne()), "done")
		s.exec(`insert into lockstep.finished_job select (jsonb_populate_record(null::lockstep.finished_job,
			to_jsonb(f) || jsonb_build_object('finished_at', f.finished_at - interval '30 days'))).* from lockstep.finished_job f`)
		s.exec("select lockstep.upkeep()")
		want("old rows", value[int](s.session, "select count(*) from lockstep.finished_job_default"), 0)
	})
}
