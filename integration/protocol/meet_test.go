package protocol_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var meetings = flag.Int("protocol.meetings", 500, "how many times TestACommitMeetsAFinish has a commit meet the finish of a lane's last job")

// TestACommitMeetsAFinish: a producer commits while the lane's last job
// finishes. Whoever is first, the new job becomes the head by these two alone:
// nobody sweeps here, and no later commit repairs the lane.
func TestACommitMeetsAFinish(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	run(t, func(s *scene) { meet(s, rand.New(rand.NewPCG(seed, 0))) })
}

func meet(s *scene, draw *rand.Rand) {
	producer, worker := s.enter(), s.enter()
	producer.put("lane", "first")
	done := make(chan error, 1)
	pending, wait := 0, 500*time.Microsecond
	for n := range *meetings {
		job := worker.claimOne()
		go func() {
			done <- producer.try("insert into lockstep.job (kind, ordering_key, payload) values ('k', 'lane', '{}')")
		}()
		spin(time.Duration((0.8 + 0.4*draw.Float64()) * float64(wait)))
		state := worker.finish("completed", job)
		must("the insert", <-done)
		if state == "pending" {
			pending++
			state = worker.finish("completed", job)
		}
		want("finish", state, "done")
		switch lane := value[string](s.session, `select coalesce(string_agg(stage::text || case when turn > lane_turn then ' promoted' else '' end, ', '), 'nothing') from lockstep.job`); lane {
		case "r": // the finish was first: wait longer, so that they meet
			wait = min(wait*21/20, 20*time.Millisecond)
		case "r promoted":
			wait = max(wait*20/21, 20*time.Microsecond)
		default:
			s.failf("meeting %d: the lane has %s; its only job must be its head", n+1, lane)
		}
	}
	s.t.Logf("%d meetings, %d of them at the entry lock", *meetings, pending)
}

// spin waits more exactly than a timer.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}
