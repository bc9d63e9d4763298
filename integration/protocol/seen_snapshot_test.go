package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// anyIsolation lets state functions run under a snapshot older than their locks.
var anyIsolation = cut{edits: []edit{{
	"if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then\n    raise exception using errcode = 'LS001'",
	"if false then\n    raise exception using errcode = 'LS001'",
}}}

func (c cut) thatShows(seen string) cut {
	c.seen = seen
	return c
}

const (
	claimByHand  = "select * from lockstep.claim($1, 'default', '{k}', 10, '1 minute')"
	finishByHand = "select * from lockstep.finish($1, array[$2::bigint], array[$3::bigint], '{completed}', '{null}', '{null}', '{null}')"
)

func TestSeen_AClaimUnderAnOldSnapshotIsRefused(t *testing.T) {
	prove(t, rule{
		must:    "state functions refuse REPEATABLE READ, where a claim would fail with 40001",
		without: map[string]cut{"isolation check": anyIsolation.thatShows("40001")},
		scene: func(s *scene) {
			old, other := s.enter(), s.enter()
			s.put("", "a")
			old.exec("begin isolation level repeatable read; select from lockstep.job")
			want("release", other.finish(store.Released, other.claimOne()), "done")
			want("claim", code(old.try(claimByHand, old.worker)), "LS001")
		},
	})
}

func TestSeen_AFinishUnderAnOldSnapshotIsRefused(t *testing.T) {
	prove(t, rule{
		must:    "state functions refuse REPEATABLE READ, where a finish would retire a lane over a committed job",
		without: map[string]cut{"isolation check": anyIsolation.thatShows("got second:w")},
		scene: func(s *scene) {
			old := s.enter()
			s.put("k", "first")
			job := old.claimOne()
			old.exec("begin isolation level repeatable read; select from lockstep.job")
			s.put("k", "second")
			err := old.try(finishByHand, old.worker, job.ID, job.Fence)
			old.exec("commit")
			want("lane", s.lane("k"), "first:r second:w")
			want("finish", code(err), "LS001")
		},
	})
}

func TestSeen_ATransactionalHandlerNeedsReadCommitted(t *testing.T) {
	prove(t, rule{
		must:    "a handler's transaction is READ COMMITTED: its heartbeats touch the row, and its finish would fail with 40001",
		without: map[string]cut{"isolation check": anyIsolation.thatShows("40001")},
		scene: func(s *scene) {
			heart := s.enter()
			s.put("k", "a")
			job := s.claimOne()
			heart.worker = s.worker

			s.exec("begin isolation level repeatable read")
			err := s.try("select lockstep.hold_lane($1, $2)", job.ID, job.Fence)
			if err == nil {
				want("heartbeat", heart.extend(job), "extended")
				must("finish", s.try(finishByHand, s.worker, job.ID, job.Fence))
			}
			want("hold_lane", code(err), "LS001")
			s.exec("rollback; begin isolation level read committed")
			want("run lock", s.hold(job), true)
			want("heartbeat", heart.extend(job), "extended")
			want("finish", s.settle(job), "pending")
			s.exec("commit")
			want("finish", s.finish(store.Completed, job), "done")
		},
	})
}
