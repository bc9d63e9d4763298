package protocol_test

import "testing"

// TestASweepTellsOfAllThatItLeft: a parked job that somebody else holds, beside
// a lane that it gives a head.
func TestASweepTellsOfAllThatItLeft(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		other := s.enter()
		s.put("parked", "a")
		s.exec("update lockstep.job set stage = 'b', hold = 'p'")
		s.put("headless", "b", "c")
		s.exec("delete from lockstep.job where payload ->> 'n' = 'b'")
		other.exec("begin; select from lockstep.job where hold = 'p' for update")
		swept, err := s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("promoted", swept.Promoted, 1)
		want("refused", swept.Refused, 1)
		other.exec("rollback")
	})
}
