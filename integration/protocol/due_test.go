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
