package protocol_test

import "testing"

// TestAJobDueInAMomentIsNotLost: the clock is read more than once while a job
// is inserted.
func TestAJobDueInAMomentIsNotLost(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		for _, key := range []string{"null", "'k'"} {
			s.exec("insert into lockstep.job (kind, ordering_key, run_at) select 'k', " + key + ", clock_timestamp() + (i % 8) * interval '1 microsecond' from generate_series(1, 2000) i")
			for i := range 20 {
				s.exec("insert into lockstep.job (kind, ordering_key, run_at) values ('k', "+key+", clock_timestamp() + $1 * interval '2 microseconds')", i)
			}
		}
		for moved := 1; moved > 0; {
			m, err := s.store.Due(t.Context(), 200)
			must("due", err)
			moved = m.Due
		}
		want("keyless jobs ready", value[int](s.session, "select count(*) from lockstep.job where ordering_key is null and stage = 'r'"), 2020)
		want("keyed jobs ready", value[int](s.session, "select count(*) from lockstep.job where ordering_key = 'k' and stage = 'r'"), 1)
		want("keyed jobs waiting", value[int](s.session, "select count(*) from lockstep.job where ordering_key = 'k' and stage = 'w'"), 2019)
	})
}

// TestStraysArePlaced: jobs that no trigger saw.
func TestStraysArePlaced(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job disable trigger job_place")
		s.put("k", "a", "b")
		s.put("l", "c")
		s.exec("alter table lockstep.job enable trigger job_place")
		s.put("k", "d")
		swept, err := s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("placed", swept.Placed, 3)
		want("lane", s.lane("k"), "d:r a:w b:w")
		want("lane", s.lane("l"), "c:r")
	})
}
