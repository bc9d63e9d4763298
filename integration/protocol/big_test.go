package protocol_test

import "testing"

// TestC45_AClaimReadsNothingOfWhatIsNotForIt: a lane of 200,000 jobs and a
// million jobs of a kind that nobody here handles, before all others and never
// analysed, cost nobody anything.
func TestC45_AClaimReadsNothingOfWhatIsNotForIt(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("set statement_timeout = 0; alter table lockstep.job set (autovacuum_enabled = off)")
		s.load("i % 11", 2000, 1)
		one, ten, none := s.claimBuffers("default", 0, 0), s.claimBuffers("default", 1, 10), s.claimBuffers("empty", 0, 9)

		s.exec("truncate lockstep.job")
		s.load("i % 11", 2000, 1)
		s.load("99", 1_000_000, -1)
		s.exec(`alter table lockstep.job disable trigger user;
			insert into lockstep.job (kind, ordering_key, stage, turn, lane_turn)
			select 'k0', 'deep', case when i = 1 then 'r' else 'w' end::"char", -i, i from generate_series(1, 200000) i;
			insert into lockstep.job (kind, queue) select 'k0', 'b' from generate_series(1, 10);
			alter table lockstep.job enable trigger user`)
		for _, now := range []struct {
			what          string
			before, after int
		}{
			{"one kind", one, s.claimBuffers("default", 0, 0)},
			{"ten kinds", ten, s.claimBuffers("default", 1, 10)},
			{"a queue of ten jobs", one, s.claimBuffers("b", 0, 0)},
			{"an empty queue", none, s.claimBuffers("empty", 0, 9)},
		} {
			t.Logf("%s: %d buffers a claim, %d before", now.what, now.after, now.before)
			if now.after > 2*now.before {
				t.Errorf("%s: a claim touches %d buffers, %d before", now.what, now.after, now.before)
			}
		}
	})
}
