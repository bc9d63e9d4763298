package verify_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

func TestFindsAnIDInTwoPlaces(t *testing.T) {
	t.Parallel()
	const (
		live     = "insert into lockstep.job (id, kind) select id, 'k' from lockstep.finished_job limit 1"
		finished = "insert into lockstep.finished_job select * from lockstep.finished_job limit 1"
		dead     = `insert into lockstep.dead_job (id, lane_turn, fence, enqueued_xid, run_at, created_at, claimed_at, died_at, worker,
			attempt, max_attempts, priority, blocking, queue, kind, tenant, payload, headers)
			select j.id, 0, 0, j.enqueued_xid, j.run_at, j.created_at, j.claimed_at, clock_timestamp(), j.worker,
			0, 1, 0, false, j.queue, j.kind, j.tenant, '{}', '{}' from `
	)
	for says, plant := range map[string]string{
		"as finished and as live": live,
		"both times as finished":  finished,
		"as dead and as finished": dead + "lockstep.finished_job j",
		"as dead and as live":     dead + "lockstep.job j",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.run(s.enqueue(""), store.Completed)
			s.enqueue("")
			clean(t, s.verify(verify.Config{}))
			s.plant(plant)
			s.found(s.verify(verify.Config{}), verify.Twice, says)
		})
	}
}

// TestTheDeadHeadOfABlockedLaneIsInTwoPlaces, rightly, and so it is while it is
// on its way out.
func TestTheDeadHeadOfABlockedLaneIsInTwoPlaces(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("select lockstep.set_queue('default', on_dead => 'block')")
	s.run(s.enqueue("a"), store.Dead)
	report := s.verify(verify.Config{})
	clean(t, report)
	if c := report.Checked; c.Live != 1 || c.Dead != 0 {
		t.Errorf("%d live and %d dead jobs, want it counted once, as live", c.Live, c.Dead)
	}
	s.plant("update lockstep.job set settled = true, outcome = 'dead', ended_at = clock_timestamp()")
	clean(t, s.verify(verify.Config{}))
}
