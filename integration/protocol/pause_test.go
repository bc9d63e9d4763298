package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// scopes are what can be paused, of the jobs that putScoped puts in.
var scopes = map[string]struct {
	store.Scope
	covers string // of the names of jobs
}{
	"queue":             {store.Scope{Queue: "q"}, "q1 q2 q3 q4 q5"},
	"kind everywhere":   {store.Scope{Kind: "k"}, "d1 d3 d4 d5 q1 q3 q4 q5"},
	"kind in a queue":   {store.Scope{Queue: "q", Kind: "k"}, "q1 q3 q4 q5"},
	"tenant everywhere": {store.Scope{Tenant: "t"}, "d3 d4 q3 q4"},
	"tenant in a queue": {store.Scope{Queue: "q", Tenant: "t"}, "q3 q4"},
	"key":               {store.Scope{Queue: "q", OrderingKey: "a"}, "q5"},
	"key of a tenant":   {store.Scope{Queue: "q", Tenant: "t", OrderingKey: "a"}, "q4"},
}

// putScoped puts the same five jobs into the queues default and q.
func (s *scene) putScoped() {
	s.exec(`insert into lockstep.job (queue, kind, tenant, ordering_key, payload)
		select queue, kind, tenant, key, jsonb_build_object('n', left(queue, 1) || n)
		  from unnest('{default,q}'::text[]) queue,
		       (values (1, 'k', '', null), (2, 'l', '', null), (3, 'k', 't', null), (4, 'k', 't', 'a'), (5, 'k', '', 'a')) v(n, kind, tenant, key)`)
}

// takeAll claims what can be had of both queues, and tells the names in order.
func (s *scene) takeAll() string {
	var all []string
	for _, queue := range []string{"default", "q"} {
		for {
			claimed, err := s.store.Claim(s.t.Context(), store.ClaimArgs{
				Worker: s.worker, Queue: queue, Kinds: []string{"k", "l"}, Max: 10, Lease: time.Minute,
			})
			must("claim", err)
			for _, job := range claimed.Jobs {
				all = append(all, nameOf(job))
			}
			if claimed.Parked == 0 && len(claimed.Jobs) == 0 {
				break
			}
		}
	}
	return sorted(all)
}

func (s *scene) pause(scope store.Scope) {
	_, err := s.store.Pause(s.t.Context(), scope, store.PauseNote{})
	must("pause", err)
}

func (s *scene) resume(scope store.Scope) store.Resumed {
	r, err := s.store.Resume(s.t.Context(), scope)
	must("resume", err)
	return r
}

// TestAPauseCoversItsScopeAndNothingElse.
func TestAPauseCoversItsScopeAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.putScoped()
				s.pause(scope.Scope)
				all := s.value("string_agg(payload ->> 'n', ' ' order by payload ->> 'n') from lockstep.job")
				want("the jobs that wait for it", s.value(`coalesce(string_agg(payload ->> 'n', ' ' order by payload ->> 'n'), '')
					from lockstep.jobs where waiting_for like '% paused'`), scope.covers)
				taken := s.takeAll()
				want("taken and covered", sorted(strings.Fields(taken+" "+scope.covers)), all)
				want("all that are paused are ready", s.value("bool_and(state = 'ready')::text from lockstep.jobs where worker is null"), "true")
				want("paused", value[int](s.session, "select cardinality(lockstep.paused(array(select id from lockstep.job)))"), len(strings.Fields(scope.covers)))
				want("resumed", s.resume(scope.Scope).WasPaused, true)
				want("then taken", s.takeAll(), scope.covers)
				want("resumed twice", s.resume(scope.Scope).WasPaused, false)
			})
		})
	}
}

// value is one text.
func (s *scene) value(sql string) string { return value[string](s.session, "select "+sql) }

// TestAPauseIsOneHoweverOftenItIsAskedFor, and keeps who, why and when.
func TestAPauseIsOneHoweverOftenItIsAskedFor(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.listen()
		scope := store.Scope{Queue: "q", Tenant: "t"}
		for i, by := range []string{"ann", "bob"} {
			fresh, err := s.store.Pause(t.Context(), scope, store.PauseNote{Reason: "why " + by, By: by})
			must("pause", err)
			want("fresh", fresh, i == 0)
		}
		want("signals", s.signals(), "p")
		pauses, err := s.store.Pauses(t.Context())
		must("pauses", err)
		want("pauses", len(pauses), 1)
		if p := pauses[0]; p.Scope != scope || p.Reason != "why ann" || p.By != "ann" || time.Since(p.At) > time.Minute {
			s.failf("%+v", p)
		}
		s.resume(scope)
		want("signals", s.signals(), "p r")
		s.resume(scope)
		want("signals of a resume of nothing", s.signals(), "")
		_, err = s.store.Pause(t.Context(), store.Scope{Queue: "q"}, store.PauseNote{})
		must("pause", err)
		want("by", value[bool](s.session, "select paused_by = session_user from lockstep.pauses"), true)
	})
}

func TestWhatIsNoScopeIsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		long := strings.Repeat("x", 1001)
		for _, bad := range []struct {
			field string
			store.Scope
		}{
			{"queue", store.Scope{}},
			{"queue", store.Scope{OrderingKey: "a"}},
			{"queue", store.Scope{Tenant: "t", OrderingKey: "a"}},
			{"kind", store.Scope{Kind: "k", Tenant: "t"}},
			{"kind", store.Scope{Queue: "q", Kind: "k", OrderingKey: "a"}},
			{"queue", store.Scope{Queue: long}},
			{"kind", store.Scope{Kind: long}},
			{"tenant", store.Scope{Tenant: long}},
			{"ordering_key", store.Scope{Queue: "q", OrderingKey: long}},
			{"tenant", store.Scope{Tenant: "a\x00"}},
			{"kind", store.Scope{Kind: "\xff"}},
		} {
			_, err := s.store.Pause(t.Context(), bad.Scope, store.PauseNote{})
			_, again := s.store.Resume(t.Context(), bad.Scope)
			for _, err := range []error{err, again} {
				var field *store.FieldError
				if !errors.As(err, &field) || field.Field != bad.field {
					s.failf("%+v: %v, want a problem of %s", bad.Scope, err, bad.field)
				}
			}
		}
		for field, note := range map[string]store.PauseNote{"reason": {Reason: strings.Repeat("x", 2001)}, "paused_by": {By: long}} {
			_, err := s.store.Pause(t.Context(), store.Scope{Queue: "q"}, note)
			var problem *store.FieldError
			if !errors.As(err, &problem) || problem.Field != field {
				s.failf("%s: %v", field, err)
			}
		}
		for _, args := range []string{"queue => ''", "kind => ''", "tenant => ''", "queue => 'q', ordering_key => ''"} {
			want(args, code(s.try("select lockstep.pause("+args+")")), "LS002")
		}
		want("pauses", value[int](s.session, "select count(*)::int from lockstep.pauses"), 0)
	})
}

// TestAParkedHeadHoldsItsLane: nobody overtakes it, and it can be cancelled,
// skipped and given another time like any head that nobody runs.
func TestAParkedHeadHoldsItsLane(t *testing.T) {
	t.Parallel()
	key := store.Scope{Queue: "default", OrderingKey: "a"}
	for name, act := range map[string]struct {
		sql  string
		then string // the lane
		next string // claimed then
	}{
		"cancel":     {"select lockstep.cancel(id) from lockstep.job where hold = 'p'", "b:r c:w", ""},
		"skip":       {"select lockstep.skip_head('default', '', 'a')", "b:r c:w", ""},
		"resume":     {"select lockstep.resume(queue => 'default', ordering_key => 'a')", "a:r b:w c:w", "a"},
		"reschedule": {"update lockstep.job set attempt = 1; select lockstep.reschedule(id, delay => '1 hour') from lockstep.job where hold = 'p'", "a:b b:w c:w", ""},
		"priority":   {"select lockstep.set_priority(id, 9) from lockstep.job where hold = 'p'", "a:b b:w c:w", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.put("a", "a", "b")
				s.pause(key)
				want("claimed", names(s.claim(10)), "")
				want("parked", s.lane("a"), "a:b b:w")
				s.put("a", "c")
				want("behind it", s.lane("a"), "a:b b:w c:w")
				s.exec("select lockstep.due(), lockstep.sweep()")
				want("untouched", s.lane("a"), "a:b b:w c:w")
				s.exec(act.sql)
				want("the lane", s.lane("a"), act.then)
				want("claimed", names(s.claim(10)), act.next)
			})
		})
	}
}

// TestWhatFallsDueOrComesBackUnderAPauseIsParked: a retry, a snooze, a
// scheduled job, a replay, a promotion, and a job that its worker lost.
func TestWhatFallsDueOrComesBackUnderAPauseIsParked(t *testing.T) {
	t.Parallel()
	tenant := store.Scope{Tenant: "t"}
	insert := func(s *scene, key string, names ...string) {
		for _, name := range names {
			s.exec(`insert into lockstep.job (kind, tenant, ordering_key, payload) values ('k', 't', nullif($1, ''), jsonb_build_object('n', $2::text))`, key, name)
		}
	}
	for name, prepare := range map[string]func(*scene){
		"retry": func(s *scene) {
			insert(s, "a", "x")
			job := s.claimOne()
			s.pause(tenant)
			s.finish(store.Failed, job)
		},
		"snooze": func(s *scene) {
			insert(s, "", "x")
			job := s.claimOne()
			s.pause(tenant)
			s.finish(store.Snoozed, job)
		},
		"release": func(s *scene) {
			insert(s, "", "x")
			job := s.claimOne()
			s.pause(tenant)
			s.finish(store.Released, job)
		},
		"scheduled": func(s *scene) {
			s.exec(`insert into lockstep.job (kind, tenant, ordering_key, run_at, payload) values ('k', 't', 'a', clock_timestamp() + '1 hour', '{"n": "x"}')`)
			s.pause(tenant)
			s.exec("select lockstep.retry_now(id) from lockstep.job")
		},
		"replay": func(s *scene) {
			insert(s, "", "x")
			s.finish(store.Dead, s.claimOne())
			s.pause(tenant)
			s.exec("select lockstep.replay(id) from lockstep.dead_job")
		},
		"replay in place": func(s *scene) {
			s.exec("select lockstep.set_queue('default', on_dead => 'block')")
			insert(s, "a", "x")
			s.finish(store.Dead, s.claimOne())
			s.pause(tenant)
			s.exec("select lockstep.replay(id) from lockstep.dead_job")
		},
		"promotion": func(s *scene) {
			insert(s, "a", "before", "x")
			job := s.claimOne()
			s.pause(tenant)
			want("finish", s.finish(store.Completed, job), "done")
		},
		"worker lost": func(s *scene) {
			insert(s, "", "x")
			s.claimOne()
			s.pause(tenant)
			s.expire()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				prepare(s)
				s.exec("select lockstep.due()")
				look := s.look("default", 10)
				want("claimed", names(look.Jobs), "")
				want("parked", look.Parked, 1)
				want("where", s.value("stage::text || hold::text || (worker = lockstep.nobody())::text from lockstep.job"), "bptrue")
				want("why", s.value("state || ': ' || waiting_for from lockstep.jobs where payload ->> 'n' = 'x' and finished_at is null"), "ready: tenant paused")
				want("returned", s.resume(tenant).Returned, 1)
				want("claimed", names(s.claim(10)), "x")
				want("lost", s.value("lost::text from lockstep.job"), map[bool]string{true: "1", false: "0"}[name == "worker lost"])
			})
		})
	}
}

// TestNothingIsHandedOverUnderAPause of any scope.
func TestNothingIsHandedOverUnderAPause(t *testing.T) {
	t.Parallel()
	for _, scope := range []store.Scope{{}, {Queue: "default"}, {Kind: "k"}, {Queue: "default", Kind: "k"}, {Tenant: "t"}, {Queue: "default", Tenant: "t", OrderingKey: "a"}, {Queue: "other"}, {Kind: "other"}} {
		t.Run(fmt.Sprintf("%+v", scope), func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.exec("insert into lockstep.job (kind, tenant, ordering_key) select 'k', 't', 'a' from generate_series(1, 2)")
				job := s.claimOne()
				free := scope == (store.Scope{}) || scope.Queue == "other" || scope.Kind == "other"
				if scope != (store.Scope{}) {
					s.pause(scope)
				}
				answers, err := s.report(store.FinishArgs{Take: []string{"k"}}, store.Completed, job)
				must("finish", err)
				want("handed over", answers[job.ID].Next != nil, free)
				want("claimed", len(s.claim(10)), 0)
			})
		})
	}
}

// TestAResumeReturnsInPages, oldest first, and others return what it leaves.
func TestAResumeReturnsInPages(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("insert into lockstep.job (kind, tenant) select 'k', 't' from generate_series(1, 2500)")
		tenant := store.Scope{Tenant: "t"}
		s.pause(tenant)
		for s.look("default", 10).Parked > 0 {
		}
		want("parked", value[int](s.session, "select count(*)::int from lockstep.job where hold = 'p'"), 2500)
		want("resume", s.resume(tenant), store.Resumed{WasPaused: true, Returned: 1000, More: true})
		want("oldest first", value[bool](s.session, "select max(id) filter (where stage = 'r') < min(id) filter (where stage = 'b') from lockstep.job"), true)
		want("again", s.resume(tenant), store.Resumed{Returned: 1000, More: true})
		left, err := s.store.Unpark(t.Context(), 300)
		must("unpark", err)
		want("unpark", left, store.Unparked{Returned: 300, More: true})
		swept, err := s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("sweep", swept.Unparked, 200)
		want("parked", value[int](s.session, "select count(*)::int from lockstep.job where hold = 'p'"), 0)

		somebody := s.enter()
		s.pause(tenant)
		s.look("default", 1)
		somebody.exec("begin; select from lockstep.job where hold = 'p' order by id limit 1 for update")
		r := s.resume(tenant)
		want("more, as one is locked", r.More, true)
		swept, err = s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("refused", swept.Refused, 1)
		somebody.exec("commit")
		left, err = s.store.Unpark(t.Context(), 1000)
		must("unpark", err)
		want("unpark", left, store.Unparked{Returned: 1})
	})
}

func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
