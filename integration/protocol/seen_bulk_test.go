package protocol_test

import "testing"

func TestSeen_ABulkGoesInSortedByKey(t *testing.T) {
	prove(t, rule{
		must: "enqueue_many inserts its rows sorted by dedupe key: two calls with the same keys in opposite order would deadlock",
		without: map[string]cut{"order": {[]edit{{
			"order by p.queue, p.tenant, p.dedupe_key, p.ordinal\n    on conflict", "order by p.ordinal\n    on conflict",
		}}, "deadlock detected"}},
		scene: func(s *scene) {
			gate, up, down := s.enter(), s.enter(), s.enter()
			s.stopAt("m", gate)
			first := s.start(up, `select * from lockstep.enqueue_many('[{"kind": "k", "dedupe_key": "a"}, {"kind": "k", "dedupe_key": "m"}, {"kind": "k", "dedupe_key": "z"}]')`)
			first.waits()
			second := s.start(down, `select * from lockstep.enqueue_many('[{"kind": "k", "dedupe_key": "z"}, {"kind": "k", "dedupe_key": "m"}, {"kind": "k", "dedupe_key": "a"}]')`)
			second.waits()
			gate.exec("select pg_advisory_unlock(1)")
			must("one order", first.wait())
			must("the other order", second.wait())
			want("jobs", value[int64](s.session, "select count(*) from lockstep.job"), 3)
		},
	})
}

// stopAt makes every insert of a dedupe key wait until gate unlocks 1.
func (s *scene) stopAt(key string, gate *session) {
	s.exec(`create function public.stop() returns trigger language plpgsql as $$
		begin
			perform pg_advisory_xact_lock_shared(1);
			return new;
		end $$;
		create trigger a_stop before insert on lockstep.job for each row when (new.dedupe_key = '` + key + `') execute function public.stop()`)
	gate.exec("select pg_advisory_lock(1)")
}

func TestABulkDoesNotDeadlockWhenItsJobsFinish(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		gate, up, down := s.enter(), s.enter(), s.enter()
		const both = `select * from lockstep.enqueue_many('[{"kind": "k", "dedupe_key": "a"}, {"kind": "k", "dedupe_key": "m"}]')`
		s.exec("select lockstep.enqueue('k', dedupe_key => 'a')")
		s.stopAt("m", gate)

		first := s.start(up, both) // finds a taken, and stops at m
		first.waits()
		s.finish("completed", s.claimOne()) // a is over
		second := s.start(down, both)       // inserts a, and stops at m too
		second.waits()
		gate.exec("select pg_advisory_unlock(1)")
		must("the first", first.wait())
		must("the second", second.wait())
		want("jobs", value[int64](s.session, "select count(*) from lockstep.job"), 2)
	})
}
