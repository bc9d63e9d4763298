package protocol_test

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

const waited = "lock timeout"

func TestSeen_NothingSetBasedWaitsForARow(t *testing.T) {
	prove(t, rule{
		must: "claim, extend, finish, due and cancel skip a row in somebody's open transaction, and answer busy",
		without: map[string]cut{
			"claim":  {[]edit{{"limit claim.max for update skip locked", "limit claim.max for update"}}, waited},
			"extend": {[]edit{{"for no key update skip locked", "for no key update"}}, waited},
			"finish": {[]edit{{"for update skip locked) j) m;", "for update) j) m;"}}, waited},
			"due":    {[]edit{{"limit least(greatest(due.max, 1), 200) for update skip locked", "limit least(greatest(due.max, 1), 200) for update"}}, waited},
			"cancel": {[]edit{{"where j.id = cancel.id for update skip locked", "where j.id = cancel.id for update"}}, waited},
		},
		scene: func(s *scene) {
			s.exec("set lock_timeout = '300ms'")
			s.exec("insert into lockstep.job (kind) select 'k' from generate_series(1, 50)")
			somebody := s.enter()
			lock := func(id int64) { somebody.exec("select from lockstep.job where id = $1 for update", id) }

			somebody.exec("begin")
			lock(value[int64](s.session, "select min(id) from lockstep.job"))
			want("jobs claimed beside the locked one", len(s.claim(100)), 49)
			somebody.exec("commit")
			s.expire()

			jobs := s.claim(100)
			somebody.exec("begin")
			lock(jobs[25].ID)
			want("heartbeats refused", strings.Count(s.extend(jobs...), "busy"), 1)
			want("cancel", value[string](s.session, "select lockstep.cancel($1)", jobs[25].ID), "busy")
			want("finishes", s.finish(store.Completed, jobs...), strings.Repeat("done ", 25)+"busy"+strings.Repeat(" done", 24))

			s.exec("insert into lockstep.job (kind, run_at) select 'k', clock_timestamp() + '1 hour' from generate_series(1, 10)")
			s.exec("update lockstep.job set run_at = clock_timestamp() where stage = 's'")
			lock(value[int64](s.session, "select min(id) from lockstep.job where stage = 's'"))
			moved, err := s.store.Due(s.t.Context(), 200)
			must("due", err)
			want("jobs fallen due", moved.Due, 9)
			want("jobs left", moved.Remaining, 1)
		},
	})
}

func TestSeen_AnAssertedClaimStaysAndItsHeartbeatsGoOn(t *testing.T) {
	const taken = "update skip locked"
	prove(t, rule{
		must: "assert_claim locks FOR KEY SHARE and extend FOR NO KEY UPDATE, so heartbeats go on; what takes a job away locks FOR UPDATE",
		without: map[string]cut{
			"assert_claim": {[]edit{{"for key share;", "for update;"}}, "heartbeat: got busy"},
			"extend":       {[]edit{{"for no key update skip locked", "for update skip locked"}}, "heartbeat: got busy"},
			"claim":        {[]edit{{"limit claim.max for " + taken, "limit claim.max for no key " + taken}}, "jobs taken by a rival: got 1"},
			"finish":       {[]edit{{"for update skip locked) j) m;", "for no key update skip locked) j) m;"}}, waited},
		},
		scene: func(s *scene) {
			s.exec("set lock_timeout = '300ms'")
			s.put("k", "a", "b")
			job := s.claimOne()
			handler, rival := s.enter(), s.enter()
			handler.exec("begin")
			handler.exec("select lockstep.assert_claim($1, $2)", job.ID, job.Fence)
			want("heartbeat", s.extend(job), "extended")
			s.expire()
			want("jobs taken by a rival", len(rival.claim(10)), 0)
			want("finish elsewhere", s.finish(store.Completed, job), "busy")
			handler.exec("commit")
			want("finish", s.finish(store.Completed, job), "done")
			want("lane", s.lane("k"), "b:r")
			want("a lost claim", code(handler.try("select lockstep.assert_claim($1, $2)", job.ID, job.Fence)), "LS003")
		},
	})
}
