package protocol_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestC33_OneOfAKeyRunsHoweverManyAreAskedFor, one by one or by hand-over.
func TestC33_OneOfAKeyRunsHoweverManyAreAskedFor(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		for _, take := range [][]string{nil, {"k"}} {
			s.put("k", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")
			order := ""
			var job store.Job
			for range 12 {
				jobs := s.claim(10)
				if job.ID == 0 {
					want("jobs claimed", len(jobs), 1)
					job = jobs[0]
				} else {
					want("jobs claimed beside a running one", len(jobs), 0)
				}
				order += nameOf(job) + " "
				answers, err := s.report(store.FinishArgs{Take: take}, store.Completed, job)
				must("finish", err)
				next := answers[job.ID].Next
				if job = (store.Job{}); next != nil {
					job = *next
				}
				want("handed over", next != nil, take != nil && order != "1 2 3 4 5 6 7 8 9 10 11 12 ")
			}
			want("order", order, "1 2 3 4 5 6 7 8 9 10 11 12 ")
		}
	})
}

// TestC35_AScheduledJobHoldsNobodyUpARetriedOneDoes.
func TestC35_AScheduledJobHoldsNobodyUpARetriedOneDoes(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec(`insert into lockstep.job (kind, ordering_key, payload, run_at) values ('k', 'scheduled', '{"n": "later"}', clock_timestamp() + '1 hour')`)
		s.put("scheduled", "now")
		job := s.claimOne()
		want("runs", nameOf(job), "now")
		want("state of the other", s.states("scheduled"), "later:scheduled now:running")
		want("finish", s.finish(store.Completed, job), "done")
		want("runs before it is due", names(s.claim(10)), "")
		s.nextDue()
		want("runs when it is due", names(s.claim(10)), "later")

		s.put("retried", "first", "second")
		delay := time.Hour
		first := s.claimOne()
		_, err := s.store.Finish(t.Context(), store.FinishArgs{Worker: s.worker, Lease: time.Minute, Reports: []store.Finish{
			{Claim: claimOf(first), Outcome: store.Failed, Error: "no", Delay: &delay},
		}})
		must("finish", err)
		want("runs behind a retry", names(s.claim(10)), "")
		want("why it waits", s.states("retried"), "first:retrying second:waiting")
		s.nextDue()
		want("runs when the retry is due", names(s.claim(10)), "first")
	})
}

// states are what people see of a key's jobs, by name.
func (s *scene) states(key string) string {
	return value[string](s.session, `select string_agg((payload ->> 'n') || ':' || state, ' ' order by payload ->> 'n', state)
		from lockstep.jobs where ordering_key = $1`, key)
}

// TestC37_ARetryKeepsItsPlace, and what a dead job does is the queue's policy.
func TestC37_ARetryKeepsItsPlace(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("k", "1", "2", "3")
		order := ""
		for _, outcome := range []store.Outcome{store.Failed, store.Failed, store.Completed, store.Completed, store.Completed} {
			job := s.claimOne()
			order += nameOf(job)
			want("finish", s.finish(outcome, job), "done")
		}
		want("order", order, "11123")

		s.put("k", "1", "2")
		want("finish", s.finish(store.Dead, s.claimOne()), "done")
		want("after a dead job", s.lane("k"), "2:r")
		want("finish", s.finish(store.Completed, s.claimOne()), "done")

		s.exec("select lockstep.set_queue('default', on_dead => 'block')")
		s.put("k", "1", "2")
		want("finish", s.finish(store.Dead, s.claimOne()), "done")
		want("blocked", s.lane("k"), "1:blocked 2:w")
		want("what people see", s.states("k"), "1:completed 1:dead 1:dead 2:completed 2:completed 2:waiting 3:completed")
		want("runs behind it", len(s.claim(10)), 0)
		want("replay", value[string](s.session, "select lockstep.replay(id) from lockstep.dead_job where blocking"), "replayed")
		want("in its place", s.lane("k"), "1:r 2:w")
		want("finish", s.finish(store.Dead, s.claimOne()), "done")
		want("unblock", value[string](s.session, "select lockstep.unblock_lane('default', '', 'k')"), "unblocked")
		want("unblocked", s.lane("k"), "2:r")
		want("replay", value[string](s.session, "select lockstep.replay(max(id)) from lockstep.dead_job"), "replayed")
		want("at the end", s.lane("k"), "2:r 1:w")
	})
}

// TestC39_TheOrderIsThatOfTheCommits.
func TestC39_TheOrderIsThatOfTheCommits(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		first, second := s.enter(), s.enter()
		first.exec("begin")
		first.put("k", "a")
		second.exec("set lock_timeout = '1s'")
		second.put("k", "b")
		want("while the first is open", s.lane("k"), "b:r")
		job := s.claimOne()
		want("runs meanwhile", nameOf(job), "b")
		first.exec("commit")
		want("after its commit", s.lane("k"), "b:r a:w")
		want("finish", s.finish(store.Completed, job), "done")
		want("runs then", names(s.claim(10)), "a")
	})
}

// TestC43_ADeadWorkersLaneGoesOn.
func TestC43_ADeadWorkersLaneGoesOn(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		dead := s.enter()
		s.put("k", "a", "b")
		lost := dead.claimOne()
		must("the worker's end", dead.conn.Close(t.Context()))
		want("runs before the lease's end", len(s.claim(10)), 0)
		s.expire()
		again := s.claimOne()
		want("runs again", nameOf(again), "a")
		want("attempt", again.Attempt, 2)
		want("fence grows", again.Fence > lost.Fence, true)
		want("finish", s.finish(store.Completed, again), "done")
		want("runs then", names(s.claim(10)), "b")
	})
}
