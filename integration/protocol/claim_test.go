package protocol_test

import (
	"strconv"
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

// TestAnAnswerHoldsWhatAValueCan: a few jobs at the limit of payloads would be
// more than that, and no claim of their queue would get anything.
func TestAnAnswerHoldsWhatAValueCan(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		// The room in kilobytes, and so the payloads.
		s.exec(`do $$ begin execute replace(pg_get_functiondef('lockstep.fitting'::regproc), '67108864', '67108'); end $$`)
		for n, size := range []int{30, 30, 1, 8, 90, 1, 0} {
			s.exec(`insert into lockstep.job (kind, payload) select 'k', jsonb_build_object('n', $1::text, 'text', repeat('x', 1000 * $2))`, strconv.Itoa(n), size)
		}
		for range 2 {
			for i, jobs := range []string{"0 1 2", "3", "4", "5 6"} {
				look := s.look("default", 20)
				want("jobs", names(look.Jobs), jobs)
				want("more", look.More, i < 3)
			}
			s.expire() // what a claim finds lost, and has no room for, is as it was
		}
		want("lost", value[int](s.session, "select count(*) from lockstep.attempt where outcome = 'lost'"), 7)

		s.exec("truncate lockstep.job")
		replace := func(size int) {
			for _, key := range []string{"a", "b"} {
				s.exec(`select lockstep.enqueue('k', jsonb_build_object('n', $1::text, 'text', repeat('x', $2)), dedupe_key => $1, dedupe => 'replace')`, key, size)
			}
		}
		replace(1)
		other := s.enter()
		other.exec("begin; select from lockstep.job for update")
		replace(40_000) // noted, and put in by the claim
		other.exec("rollback")
		want("jobs", names(s.claim(20)), "a")
		want("jobs", names(s.claim(20)), "b")

		s.exec("truncate lockstep.job")
		for _, size := range []int{1, 40_000} {
			s.exec(`insert into lockstep.job (kind, ordering_key, payload)
				select 'k', key, jsonb_build_object('n', key, 'text', repeat('x', $1)) from unnest('{a,b}'::text[]) key`, size)
		}
		answers, err := s.report(store.FinishArgs{Take: []string{"k"}}, store.Completed, s.claim(20)...)
		must("finish", err)
		handed := 0
		for _, answer := range answers {
			if answer.Next != nil {
				handed++
			}
		}
		want("jobs handed over", handed, 1)
		want("jobs", len(s.claim(20)), 1)
	})
}
