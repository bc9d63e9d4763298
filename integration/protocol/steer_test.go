package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// situations put a job named x into a state, and answer its id; those that are
// keyed use the lane k. Others of the lane are named a, b, c.
var situations = map[string]func(*scene) int64{
	"scheduled":         func(s *scene) int64 { return s.later("") },
	"scheduled, keyed":  func(s *scene) int64 { return s.later("k") },
	"ready":             func(s *scene) int64 { return s.one("") },
	"ready, alone":      func(s *scene) int64 { return s.one("k") },
	"ready, a head":     func(s *scene) int64 { id := s.one("k"); s.put("k", "a"); return id },
	"ready again, head": func(s *scene) int64 { id := s.failed("k"); s.put("k", "a"); s.exec("select lockstep.due()"); return id },
	"waiting":           func(s *scene) int64 { s.put("k", "a"); return s.one("k") },
	"running":           func(s *scene) int64 { id := s.one("k"); s.claimOne(); return id },
	"retrying":          func(s *scene) int64 { id := s.failed(""); s.put("", "a"); return id },
	"retrying, a head":  func(s *scene) int64 { id := s.failed("k"); s.put("k", "a"); return id },
	"snoozed": func(s *scene) int64 {
		id := s.one("k")
		s.finish(store.Snoozed, s.claimOne())
		s.exec("update lockstep.job set run_at = 'tomorrow'")
		return id
	},
	"parked":        func(s *scene) int64 { return s.parked("") },
	"parked, alone": func(s *scene) int64 { return s.parked("k") },
	"parked, a head": func(s *scene) int64 {
		id := s.parked("k")
		s.exec("insert into lockstep.job (kind, tenant, ordering_key) values ('k', 't', 'k')")
		return id
	},
	"settled":   func(s *scene) int64 { id := s.one("k"); s.settle(s.claimOne()); return id },
	"completed": func(s *scene) int64 { id := s.one(""); s.finish(store.Completed, s.claimOne()); return id },
	"cancelled": func(s *scene) int64 { id := s.one(""); s.exec("select lockstep.cancel($1)", id); return id },
	"dead":      func(s *scene) int64 { id := s.one("k"); s.finish(store.Dead, s.claimOne()); return id },
	"dead and in place": func(s *scene) int64 {
		s.exec("select lockstep.set_queue('default', on_dead => 'block')")
		id := s.one("k")
		s.finish(store.Dead, s.claimOne())
		return id
	},
	"of an open session": func(s *scene) int64 {
		s.exec("begin; insert into lockstep.job (kind, ordering_key) values ('k', 'k')")
		return s.last()
	},
	"unknown": func(*scene) int64 { return 999 },
	"zzz locked": func(s *scene) int64 {
		id := s.later("")
		locker := s.enter()
		locker.exec("set idle_in_transaction_session_timeout = '1 min'; begin")
		locker.exec("select from lockstep.job where id = $1 for update", id)
		return id
	},
}

func (s *scene) last() int64 { return value[int64](s.session, "select max(id) from lockstep.job") }

func (s *scene) one(key string) int64 { s.put(key, "x"); return s.last() }

func (s *scene) later(key string) int64 {
	s.exec(`insert into lockstep.job (kind, ordering_key, run_at, payload) values ('k', nullif($1, ''), clock_timestamp() + '1 day', '{"n": "x"}')`, key)
	return s.last()
}

// failed is a job that is to be retried at once, or, if due() is not called,
// tomorrow.
func (s *scene) failed(key string) int64 {
	id := s.one(key)
	s.finish(store.Failed, s.claimOne())
	s.exec("update lockstep.job set stage = 'b', run_at = clock_timestamp()")
	return id
}

func (s *scene) parked(key string) int64 {
	s.exec(`insert into lockstep.job (kind, tenant, ordering_key, payload) values ('k', 't', nullif($1, ''), '{"n": "x"}')`, key)
	s.pause(store.Scope{Tenant: "t"})
	s.claim(10)
	return s.last()
}

// TestSteering is the table of what can be done to a job in which state, and
// what it is then: as docs/operations.md has it.
func TestSteering(t *testing.T) {
	t.Parallel()
	run(t, steering)
}

func steering(s *scene) {
	// Of each: the answer (or SQLSTATE) of retry_now, reschedule to tomorrow,
	// reschedule to now, set_priority, cancel; beside each the state after it.
	table := map[string][5]string{
		"scheduled":          {"ready ready", "scheduled scheduled", "scheduled scheduled", "changed scheduled", "cancelled cancelled"},
		"scheduled, keyed":   {"due scheduled", "scheduled scheduled", "scheduled scheduled", "changed scheduled", "cancelled cancelled"},
		"ready":              {"LS006 ready", "scheduled scheduled", "ready ready", "changed ready", "cancelled cancelled"},
		"ready, alone":       {"LS006 ready", "scheduled scheduled", "ready ready", "changed ready", "cancelled cancelled"},
		"ready, a head":      {"LS006 ready", "LS006 ready", "ready ready", "changed ready", "cancelled cancelled"},
		"ready again, head":  {"LS006 ready", "retrying retrying", "ready ready", "changed ready", "cancelled cancelled"},
		"waiting":            {"LS006 waiting", "LS006 waiting", "LS006 waiting", "changed waiting", "cancelled cancelled"},
		"running":            {"LS006 running", "LS006 running", "LS006 running", "changed running", "requested running"},
		"retrying":           {"ready ready", "retrying retrying", "retrying retrying", "changed retrying", "cancelled cancelled"},
		"retrying, a head":   {"ready ready", "retrying retrying", "retrying retrying", "changed retrying", "cancelled cancelled"},
		"snoozed":            {"LS006 ready", "retrying scheduled", "ready ready", "changed ready", "cancelled cancelled"},
		"parked":             {"LS006 ready", "scheduled scheduled", "ready ready", "changed ready", "cancelled cancelled"},
		"parked, alone":      {"LS006 ready", "scheduled scheduled", "ready ready", "changed ready", "cancelled cancelled"},
		"parked, a head":     {"LS006 ready", "LS006 ready", "ready ready", "changed ready", "cancelled cancelled"},
		"settled":            {"LS006 completed", "LS006 completed", "LS006 completed", "LS006 completed", "ended completed"},
		"completed":          {"LS006 completed", "LS006 completed", "LS006 completed", "LS006 completed", "ended completed"},
		"cancelled":          {"LS006 cancelled", "LS006 cancelled", "LS006 cancelled", "LS006 cancelled", "ended cancelled"},
		"dead":               {"LS006 dead", "LS006 dead", "LS006 dead", "LS006 dead", "ended dead"},
		"dead and in place":  {"LS006 dead", "LS006 dead", "LS006 dead", "LS006 dead", "LS006 dead"},
		"of an open session": {"LS006 waiting", "LS006 waiting", "LS006 waiting", "changed waiting", "cancelled cancelled"},
		"unknown":            {"LS005", "LS005", "LS005", "LS005", "LS005"},
		"zzz locked":         {"busy scheduled", "busy scheduled", "busy scheduled", "busy scheduled", "busy scheduled"},
	}
	for _, name := range slices.Sorted(maps.Keys(table)) { // the locked one comes last: it can't be truncated
		wanted := table[name]
		s.afresh()
		id := situations[name](s)
		for i, call := range []string{
			"retry_now($1)", "reschedule($1, delay => '1 day')", "reschedule($1, run_at => 'yesterday')", "set_priority($1, 7)", "cancel($1)",
		} {
			want(name+": "+call, s.steer(call, id), wanted[i])
		}
	}
}

// afresh empties the tables.
func (s *scene) afresh() {
	s.exec("rollback; truncate lockstep.job, lockstep.finished_job, lockstep.dead_job, lockstep.attempt, lockstep.pause restart identity; update lockstep.queue set on_dead = 'skip'")
}

// steer is what a function answers, or its SQLSTATE, and the state that the job
// is in then. Nothing stays.
func (s *scene) steer(call string, id int64) string {
	if s.conn.PgConn().TxStatus() == 'I' {
		s.exec("begin")
		defer s.exec("rollback")
	}
	s.exec("savepoint before")
	var answer string
	err := s.conn.QueryRow(s.t.Context(), "select lockstep."+call, id).Scan(&answer)
	if err != nil {
		answer = code(err)
		s.exec("rollback to before")
	}
	answer += value[string](s.session, "select coalesce(' ' || min(state), '') from lockstep.job_status($1)", id)
	s.exec("rollback to before")
	return answer
}

// TestRetryNowRunsAtOnce, each kind of waiting for a time, with its signal.
func TestRetryNowRunsAtOnce(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]string{"scheduled": "r", "scheduled, keyed": "d", "retrying": "r", "retrying, a head": "r"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				id := situations[name](s)
				s.listen()
				_, err := s.store.RetryNow(t.Context(), id)
				must("retry now", err)
				want("signals", s.signals(), signal)
				s.exec("select lockstep.due()")
				want("claimed", slices.ContainsFunc(s.claim(10), func(job store.Job) bool { return job.ID == id }), true)
				want("ran before it was due", value[bool](s.session, "select claimed_at < run_at from lockstep.job where id = $1", id), false)
			})
		})
	}
}

// TestRescheduledJobsRunThenAndNoSooner, and a lane goes on without one that was
// alone in it.
func TestRescheduledJobsRunThenAndNoSooner(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		id := s.one("k")
		s.listen()
		state, err := s.store.RescheduleIn(t.Context(), id, time.Hour)
		must("reschedule", err)
		want("state", state, store.StateScheduled)
		want("signals", s.signals(), "d")
		s.put("k", "a", "b")
		want("the lane", s.lane("k"), "a:r b:w x:s")
		want("claimed", names(s.claim(10)), "a")
		state, err = s.store.Reschedule(t.Context(), id, time.Now().Add(-time.Hour))
		must("reschedule", err)
		want("state", state, store.StateScheduled)
		s.exec("select lockstep.due()")
		want("the lane", s.lane("k"), "a:r b:w x:w")
		for _, bad := range []string{"", "run_at => 'infinity'", "run_at => '-infinity'", "run_at => '10000-01-01 UTC'", "delay => '-1 s'", "delay => '1100 years'", "run_at => 'now', delay => '0'"} {
			if bad != "" {
				bad = ", " + bad
			}
			want(bad, code(s.try(fmt.Sprintf("select lockstep.reschedule(%d%s)", id, bad))), "LS002")
		}
	})
}

// TestPriorityCountsAmongWhatMayRun, not inside a lane.
func TestPriorityCountsAmongWhatMayRun(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("", "a", "b", "c")
		s.put("k", "d", "e")
		for name, priority := range map[string]int{"b": 9, "c": -9, "e": 9} {
			must("priority", s.store.SetPriority(t.Context(), value[int64](s.session, "select id from lockstep.job where payload ->> 'n' = $1", name), priority))
		}
		want("order", names(s.claim(10)), "b a d c")
		for _, bad := range []int{-10, 10, 1 << 40} {
			if err := s.store.SetPriority(t.Context(), 1, bad); err == nil {
				s.failf("priority %d", bad)
			}
		}
		want("null", code(s.try("select lockstep.set_priority(1, null)")), "LS002")
	})
}

// TestWaitingFor says why a job waits.
func TestWaitingFor(t *testing.T) {
	t.Parallel()
	const nobody = "no live dispatcher handles this kind"
	reasons := map[string]string{
		"scheduled": "scheduled for 2", "scheduled, keyed": "scheduled for 2", "ready": nobody, "ready, alone": nobody, "waiting": "behind job 1",
		"running": "", "retrying": nobody, "parked": "tenant paused", "settled": "", "completed": "", "cancelled": "", "dead": "", "dead and in place": "",
	}
	t.Run("by state", func(t *testing.T) {
		t.Parallel()
		run(t, func(s *scene) {
			why := func(id int64, prefix string) string {
				status, err := s.store.JobStatus(t.Context(), id)
				must("status", err)
				if prefix != "" {
					return status.WaitingFor[:min(len(prefix), len(status.WaitingFor))]
				}
				return status.WaitingFor
			}
			for name, reason := range reasons {
				s.afresh()
				s.exec("truncate lockstep.dispatcher")
				id := situations[name](s)
				want(name, why(id, reason), reason)
				_, err := s.store.Register(t.Context(), store.Registration{Worker: s.worker, Queues: []string{"default"}, Kinds: []string{"j", "k"}, Lease: time.Minute})
				must("register", err)
				if reason == nobody {
					reason = ""
				}
				want(name+", with a dispatcher", why(id, reason), reason)
			}
		})
	})
	t.Run("other reasons", func(t *testing.T) {
		t.Parallel()
		run(t, func(s *scene) {
			why := func(name string) string {
				return s.value("coalesce(waiting_for, '') from lockstep.jobs where payload ->> 'n' = '" + name + "'")
			}
			s.exec("select lockstep.set_queue('default', on_dead => 'block')")
			s.put("k", "x", "a")
			s.finish(store.Dead, s.claimOne())
			want("behind a dead job", why("a"), "lane blocked by dead job 1")
			s.exec("delete from lockstep.job where payload ->> 'n' = 'x'")
			want("without a head", why("a"), "its lane's next sweep")
			s.put("", "y")
			for _, step := range []struct {
				scope store.Scope
				why   string
			}{
				{store.Scope{Queue: "other"}, nobody},
				{store.Scope{Kind: "k"}, "kind paused"},
				{store.Scope{Queue: "default"}, "queue paused"},
			} {
				s.pause(step.scope)
				want("y", why("y"), step.why)
			}
			s.exec("select lockstep.resume(kind => 'k'), lockstep.resume(queue => 'default')")
			s.exec("select lockstep.sweep()")
			s.pause(store.Scope{Queue: "default", OrderingKey: "k"})
			want("a", why("a"), "key paused")
			want("y", why("y"), nobody)
			s.exec("update lockstep.job set stage = 'b', run_at = '2999-01-31 12:00+00', attempt = (payload ->> 'n' = 'y')::int")
			want("a", why("a"), "snoozed until 2999-01-31T12:00:00Z")
			want("y", why("y"), "retry at 2999-01-31T12:00:00Z")
		})
	})
}
