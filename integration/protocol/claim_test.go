package protocol_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestAFenceIsFlushed: a sequence that is not could hand it out twice.
func TestAFenceIsFlushed(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("k", "a", "b", "c")
		s.exec("set synchronous_commit = off; begin")
		job := s.claimOne()
		want("synchronous_commit of a claim", value[string](s.session, "show synchronous_commit"), "local")
		s.exec("commit")
		want("and after it", value[string](s.session, "show synchronous_commit"), "off")
		s.exec("begin")
		answers, err := s.report(store.FinishArgs{Take: []string{"k"}}, store.Completed, job)
		must("finish", err)
		want("handed over", answers[job.ID].Next != nil, true)
		want("synchronous_commit of a hand-over", value[string](s.session, "show synchronous_commit"), "local")
		s.exec("commit")
	})
}

// TestJobsComeByPriorityThenTurn over all kinds, and inside a lane by turn alone.
func TestJobsComeByPriorityThenTurn(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec(`insert into lockstep.job (kind, priority, payload) values
			('a', 0, '{"n": "1"}'), ('b', 0, '{"n": "2"}'), ('a', 9, '{"n": "3"}'), ('b', 9, '{"n": "4"}'), ('a', -9, '{"n": "5"}'), ('c', 9, '{"n": "6"}')`)
		s.exec(`insert into lockstep.job (kind, priority, ordering_key, payload) values ('a', -1, 'k', '{"n": "7"}'), ('a', 9, 'k', '{"n": "8"}')`)
		order := ""
		for range 4 {
			claimed, err := s.store.Claim(t.Context(), store.ClaimArgs{Worker: s.worker, Queue: "default", Kinds: []string{"b", "a"}, Max: 2, Lease: time.Minute})
			must("claim", err)
			order += names(claimed.Jobs) + " "
		}
		want("order", order, "3 4 1 2 7 5  ")
	})
}

// TestAnIdleLookTellsWhenToLookAgain.
func TestAnIdleLookTellsWhenToLookAgain(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("", "a")
		s.claimOne()
		s.schedule("1 hour")
		look := s.enter().look("default", 10)
		want("jobs", len(look.Jobs), 0)
		want("more", look.More, false)
		if lease := look.LeaseEnd.Sub(look.LookedAt); lease <= 0 || lease > time.Minute {
			s.failf("the lease ends %v after the look", lease)
		}
		if due := look.DueAt.Sub(look.LookedAt); due <= 0 || due > time.Hour {
			s.failf("the next job is due %v after the look", due)
		}
		want("look again", look.LookAgain, 30*time.Second)

		somebody := s.enter()
		s.put("", "b")
		somebody.exec("begin; select from lockstep.job where payload ->> 'n' = 'b' for update")
		want("more", s.look("default", 10).More, true)
		somebody.exec("commit")
		want("jobs", names(s.claim(10)), "b")
	})
}
