package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

func TestSeen_ADayWithoutPartitionFailsNoFinish(t *testing.T) {
	prove(t, rule{
		must: "the history has a default partition: a day that nobody prepared fails no finish",
		without: map[string]cut{"default partition": {[]edit{{
			"create table @schema@.finished_job_default partition of @schema@.finished_job default;", "",
		}}, "no partition of relation"}},
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
