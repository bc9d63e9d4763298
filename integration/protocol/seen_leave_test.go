package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

func TestSeen_TheNextJobIsLockedBeforeTheHeadLeaves(t *testing.T) {
	const locks = "locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage::text = 'w' for update skip locked);"
	prove(t, rule{
		must: "a finish locks the lane's next job before the head leaves, and neither waits for it nor skips it: with cancels about, jobs would run out of order",
		without: map[string]cut{
			"lock":    {[]edit{{locks, "locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage::text = 'w');"}}, "finish beside a cancel: " + waited},
			"no wait": {[]edit{{locks, "locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage::text = 'w' for update);"}}, "finish beside a cancel: " + waited},
			"no skip": {[]edit{{
				"where j.queue = h.queue and j.tenant = h.tenant and j.ordering_key = h.ordering_key and j.stage = 'w'\n         order by j.lane_turn limit 1) w on true;",
				"where j.queue = h.queue and j.tenant = h.tenant and j.ordering_key = h.ordering_key and j.stage = 'w'\n         order by j.lane_turn limit 1 for update skip locked) w on true;",
			}}, "finish beside a cancel: got done"},
		},
		scene: func(s *scene) {
			s.put("k", "a", "b", "c")
			job := s.claimOne()
			canceller := s.enter()
			canceller.exec("begin; select lockstep.cancel(id) from lockstep.job where payload ->> 'n' = 'b'")
			s.exec("set lock_timeout = '500ms'")
			answers, err := s.report(store.FinishArgs{}, store.Completed, job)
			if err != nil {
				s.failf("finish beside a cancel: " + waited)
			}
			want("finish beside a cancel", answers[job.ID].State, store.FinishPending)
			want("the lane while the next job is held", s.lane("k"), "a:settled b:w c:w")
			want("jobs to claim meanwhile", len(s.claim(10)), 0)
			canceller.exec("rollback")
			want("the same report", s.finish(store.Completed, job), "done")
			want("after it", s.lane("k"), "b:r c:w")
		},
	})
}

func TestSeen_AHandlersOwnTransactionOnlySettles(t *testing.T) {
	prove(t, rule{
		must:    "inside a handler's transaction a finish only records the outcome: two handlers that enqueue to each other's lane would deadlock",
		without: map[string]cut{"settling": {[]edit{{"  if settle_only then\n", "  if false then\n"}}, "deadlock detected"}},
		scene: func(s *scene) {
			x, y := s.enter(), s.enter()
			s.put("x", "1")
			s.put("y", "2")
			jobX, jobY := x.claim(1)[0], y.claim(1)[0]
			handle := func(c *session, job store.Job, other string) {
				c.exec("begin")
				want("run lock", c.hold(job), true)
				c.put(other, "3")
				c.settle(job)
			}
			handle(x, jobX, "y")
			handle(y, jobY, "x")
			first, second := s.start(x, "commit"), s.start(y, "commit")
			must("one commit", first.wait())
			must("the other commit", second.wait())
			want("finish", x.finish(store.Completed, jobX)+" "+y.finish(store.Completed, jobY), "done done")
			want("one lane", s.lane("x"), "3:r")
			want("the other lane", s.lane("y"), "3:r")
		},
	})
}

func TestSeen_AKeylessJobHasARunLockOfItsOwn(t *testing.T) {
	const byID = "then @schema@.lock_number('run job', queue, tenant, id::text)"
	prove(t, rule{
		must: "the run lock of a job without a key is that of its id: of a null key it would be null, which nobody can hold",
		without: map[string]cut{
			"null":  {[]edit{{byID, "then @schema@.lock_number('run job', queue, tenant, null)"}}, "locks held: got 0"},
			"empty": {[]edit{{byID, "then @schema@.lock_number('run job', queue, tenant, '')"}}, "run lock of the second: got false"},
		},
		scene: func(s *scene) {
			a, b, rival := s.enter(), s.enter(), s.enter()
			s.put("", "a", "b")
			first, second := a.claim(1)[0], b.claim(1)[0]
			a.exec("begin")
			want("run lock", a.hold(first), true)
			want("locks held", a.locks(), 1)
			b.exec("begin")
			want("run lock of the second", b.hold(second), true)
			s.expire()
			want("jobs taken by a rival", len(rival.claim(10)), 0)
		},
	})
}

func TestSeen_AStuckHolderIsEndedWithTheCallersRights(t *testing.T) {
	const head = "create or replace function @schema@.end_stuck(id bigint, fence bigint, pid integer, backend_start timestamptz) returns boolean\nlanguage plpgsql\n"
	prove(t, rule{
		must:    "end_stuck runs with its caller's rights: with those of the schema's owner PostgreSQL refuses to end somebody's session",
		without: map[string]cut{"caller's rights": {[]edit{{head, head + "security definer\n"}}, "42501"}},
		scene: func(s *scene) {
			s.ownedBy("owner_" + s.db.Name)
			handler := s.enter()
			s.put("k", "a")
			job := handler.claimOne()
			handler.exec("begin")
			want("run lock", handler.hold(job), true)
			s.expire()
			want("holders stuck at first", len(s.look("default", 10).Stuck), 0)
			s.exec("update lockstep.job set held_since = clock_timestamp() - interval '1 hour'")
			s.expire()
			stuck := s.look("default", 10).Stuck
			want("holders stuck", len(stuck), 1)
			want("whom", uint32(stuck[0].PID), handler.conn.PgConn().PID())

			wrongStart := stuck[0]
			wrongStart.BackendStart = wrongStart.BackendStart.Add(-patience)
			ended, err := s.store.EndStuck(s.t.Context(), wrongStart)
			must("end_stuck of another backend", err)
			want("another backend ended", ended, false)
			ended, err = s.store.EndStuck(s.t.Context(), stuck[0])
			must("end_stuck", err)
			want("ended", ended, true)
			for i := 0; len(s.claim(10)) == 0; i++ {
				if i > 100 {
					s.failf("the job is not free after its holder's end")
				}
				s.exec("select pg_sleep(0.02)")
				s.expire()
			}
		},
	})
}

// ownedBy gives the function end_stuck to a role that may do nothing else.
func (s *scene) ownedBy(role string) {
	s.exec("create role " + role + " in role pg_read_all_stats")
	s.afterwards("reassign owned by " + role + " to current_user; drop owned by " + role + "; drop role " + role)
	s.exec("grant usage, create on schema lockstep to " + role + "; grant select on lockstep.job to " + role +
		"; alter function lockstep.end_stuck owner to " + role)
}
