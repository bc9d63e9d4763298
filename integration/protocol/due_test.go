package protocol_test

import (
	"fmt"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// TestALockedLaneHoldsUpNoOtherDueJob: however many jobs of it fall due first.
func TestALockedLaneHoldsUpNoOtherDueJob(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("insert into lockstep.job (kind, ordering_key, run_at) select 'k', 'locked', clock_timestamp() + '1 hour' from generate_series(1, 3000) i")
		s.exec("insert into lockstep.job (kind, ordering_key, payload, run_at) values ('k', 'free', '{\"n\": \"free\"}', clock_timestamp() + '2 hours')")
		s.exec("update lockstep.job set run_at = run_at - interval '3 hours'")
		producer := s.enter()
		producer.exec("begin; insert into lockstep.job (kind, ordering_key) values ('k', 'locked'); set constraints all immediate")
		moved, err := s.store.Due(t.Context(), 200)
		must("due", err)
		want("jobs fallen due", moved.Due, 1)
		want("the free lane", s.lane("free"), "free:r")
		producer.exec("rollback")
		moved, err = s.store.Due(t.Context(), 200)
		must("due", err)
		want("jobs fallen due after the lock", moved.Due, 200)
	})
}

// TestALockedLaneHoldsUpNoOtherSettledHead: however many are settled before it.
func TestALockedLaneHoldsUpNoOtherSettledHead(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("insert into lockstep.job (kind, queue, ordering_key) select 'k', 'locked', i::text from generate_series(1, 250) i")
		s.put("free", "a", "b")
		producer := s.enter()
		producer.exec(fmt.Sprintf("begin; select pg_advisory_xact_lock(%d)", value[int64](s.session, "select lockstep.queue_lock('locked')")))
		jobs := s.claimFrom("locked", 300)
		want("finish", s.finish(store.Completed, jobs[:200]...)[:7], "pending")
		s.finish(store.Completed, jobs[200:]...)
		job := s.claimOne()
		s.exec("begin")
		want("settled", s.settle(job), "pending")
		s.exec("commit")
		moved, err := s.store.Due(t.Context(), 200)
		must("due", err)
		want("retired", moved.Retired, 1)
		want("the free lane", s.lane("free"), "b:r")
	})
}

func TestSeen_TheEarlierDueDateIsPlacedFirst(t *testing.T) {
	prove(t, rule{
		must:    "a scheduled job is not placed while somebody else has one of its lane that was due before it: two dispatchers at one moment each had some, and the one that came first placed the later ones before the earlier",
		without: map[string]cut{"in turn": {[]edit{{"  ids := @schema@.in_turn(ids);\n", ""}}, "the lane: got b:r c:w a:s"}},
		scene: func(s *scene) {
			s.exec(`insert into lockstep.job (kind, ordering_key, payload, run_at)
				select 'k', k, jsonb_build_object('n', n), clock_timestamp() + '1 hour' from (values ('K', 'a'), ('K', 'b'), ('K', 'c'), ('other', 'd')) j(k, n)`)
			s.exec("update lockstep.job set run_at = run_at - interval '2 hours'")
			other := s.enter()
			other.exec("begin; select from lockstep.job where payload ->> 'n' = 'a' for update")
			s.exec("select lockstep.due()")
			want("another lane", s.lane("other"), "d:r")
			want("the lane", s.lane("K"), "a:s b:s c:s")
			other.exec("rollback")
			other.exec("begin; select from lockstep.job where payload ->> 'n' = 'b' for update")
			s.exec("select lockstep.due()")
			want("the lane up to one that somebody has", s.lane("K"), "a:r b:s c:s")
			other.exec("commit")
			s.exec("select lockstep.due()")
			want("the lane in the end", s.lane("K"), "a:r b:w c:w")
		},
	})
}
