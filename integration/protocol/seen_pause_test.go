package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

var resumeWithoutLock = edit{"      perform pg_advisory_xact_lock(@schema@.pause_lock(s.tenant));", "      null;"}

// parkedFree counts parked jobs that no pause covers.
func (s *scene) parkedFree() int {
	return value[int](s.session, "select count(*)::int from lockstep.job j where hold = 'p' and cardinality(lockstep.paused(array[j.id])) = 0")
}

func TestSeen_AResumeSeesAllThatWasParkedForItsPause(t *testing.T) {
	prove(t, rule{
		must: "who parks holds the tenant's pause lock until the commit, and a resume waits for it",
		without: map[string]cut{
			"resume": {[]edit{resumeWithoutLock}, "parked without a pause: got 1"},
			"park":   {[]edit{{"where pg_try_advisory_xact_lock_shared(@schema@.pause_lock(t.tenant)));", ");"}}, "parked without a pause: got 1"},
		},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, tenant) values ('k', 't')")
			s.pause(store.Scope{Tenant: "t"})
			parker := s.enter()
			parker.exec("begin")
			want("parked", parker.look("default", 10).Parked, 1)
			resume := s.start(s.enter(), "select lockstep.resume(tenant => 't')")
			resume.waits()
			parker.exec("commit")
			must("resume", resume.wait())
			want("pauses", value[int](s.session, "select count(*)::int from lockstep.pauses"), 0)
			want("parked without a pause", s.parkedFree(), 0)
			want("claimed", len(s.claim(10)), 1)
		},
	})
}

func TestSeen_WhoParksLooksAgainBehindTheLock(t *testing.T) {
	prove(t, rule{
		must: "a claim looks at the pauses again once it holds the pause lock: one may have been resumed meanwhile",
		tuned: []edit{{ // a gate between the look and the lock
			"      parked := @schema@.park(barred)",
			"      perform pg_advisory_xact_lock_shared(4711);\n      parked := @schema@.park(barred)",
		}},
		without: map[string]cut{
			"look": {[]edit{{
				"  ids := @schema@.parkable(array(select j.id from @schema@.job j where j.id = any (ids) and j.tenant = any (shared)));",
				"  ids := array(select j.id from @schema@.job j where j.id = any (ids) and j.tenant = any (shared));",
			}}, "parked without a pause: got 1"},
		},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, tenant) values ('k', 't')")
			s.pause(store.Scope{Tenant: "t"})
			gate := s.enter()
			gate.exec("begin; select pg_advisory_xact_lock(4711)")
			claim := s.start(s.enter(), "select lockstep.claim(gen_random_uuid(), 'default', '{k}', 10, '1 min')")
			want("the claim waits at the gate", claim.waits(), true)
			want("resumed", s.resume(store.Scope{Tenant: "t"}).WasPaused, true)
			gate.exec("commit")
			must("claim", claim.wait())
			want("parked without a pause", s.parkedFree(), 0)
			want("claimed", len(s.claim(10)), 1)
		},
	})
}

func TestSeen_ResumesOfOverlappingPausesSeeEachOther(t *testing.T) {
	prove(t, rule{
		must: "resumes of pauses that may cover the same jobs take turns: the last one returns them",
		without: map[string]cut{
			"lock": {[]edit{resumeWithoutLock}, "parked without a pause: got 1"},
		},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, tenant) values ('k', 't')")
			s.pause(store.Scope{Tenant: "t"})
			s.pause(store.Scope{Queue: "default", Tenant: "t"})
			want("parked", s.look("default", 10).Parked, 1)
			first := s.enter()
			first.exec("begin; select lockstep.resume(tenant => 't')")
			second := s.start(s.enter(), "select lockstep.resume(queue => 'default', tenant => 't')")
			second.waits()
			first.exec("commit")
			must("resume", second.wait())
			want("parked without a pause", s.parkedFree(), 0)
		},
	})
}

func TestSeen_WhatIsPausedIsNotTaken(t *testing.T) {
	prove(t, rule{
		must: "a claim leaves out paused queues and kinds, and parks jobs of paused tenants and keys; a hand-over takes nothing that is paused",
		without: map[string]cut{
			"kinds of a claim":  {[]edit{{"    wanted := @schema@.unpaused_kinds(claim.queue, wanted);", "    null;"}}, "of a paused kind"},
			"jobs of a claim":   {[]edit{{"    barred := @schema@.parkable(owned);", "    barred := '{}';"}}, "of a paused tenant"},
			"the hand-over":     {[]edit{{"      barred := @schema@.paused(mine);", "      barred := '{}';"}}, "handed over"},
			"other ready kinds": {[]edit{{"unnest(case when pauses then @schema@.unpaused_kinds(q.queue, @schema@.ready_kinds(q.queue, take, '{}'))", "unnest(case when pauses then @schema@.ready_kinds(q.queue, take, '{}')"}}, "beside a paused kind"},
		},
		scene: func(s *scene) {
			s.pause(store.Scope{Kind: "k"})
			s.put("", "x")
			want("claimed of a paused kind", len(s.claim(10)), 0)
			s.resume(store.Scope{Kind: "k"})
			want("claimed", len(s.claim(10)), 1)
			s.pause(store.Scope{Tenant: "t"})
			s.exec("insert into lockstep.job (kind, tenant) values ('k', 't')")
			want("claimed of a paused tenant", len(s.claim(10)), 0)

			next := func() bool {
				job := s.claimOne()
				answers, err := s.report(store.FinishArgs{Take: []string{"k", "paused"}}, store.Completed, job)
				must("finish", err)
				return answers[job.ID].Next != nil
			}
			s.put("a", "1", "2", "3")
			s.pause(store.Scope{Kind: "paused"})
			s.exec("insert into lockstep.job (kind) values ('paused')")
			want("handed over beside a paused kind", next(), true)
			s.exec("update lockstep.job set lease_until = '-infinity', worker = lockstep.nobody() where ordering_key = 'a'")
			key := store.Scope{Queue: "default", OrderingKey: "a"}
			job := s.claimOne()
			s.pause(key)
			answers, err := s.report(store.FinishArgs{Take: []string{"k"}}, store.Completed, job)
			must("finish", err)
			want("handed over", answers[job.ID].Next == nil, true)
		},
	})
}

func TestSeen_AHeadLeavesForLaterUnderItsLanesEntryLock(t *testing.T) {
	prove(t, rule{
		must: "a lane's lone head is scheduled anew only under the entry lock, after a second look: a producer may be putting a job behind it",
		without: map[string]cut{
			"lock": {[]edit{{"  if not @schema@.try_entry(job.queue, job.tenant, job.ordering_key) then\n    return false;", "  if false then\n    return false;"}}, "the lane: got b:w"},
			"look": {[]edit{{"  if behind is not null then", "  if false then"}}, "with a job behind it: got "},
		},
		scene: func(s *scene) {
			s.put("k", "a")
			id := value[int64](s.session, "select id from lockstep.job")
			producer := s.enter()
			producer.exec(`begin; insert into lockstep.job (kind, ordering_key, payload) values ('k', 'k', '{"n": "b"}'); set constraints all immediate`)
			said := s.value("lockstep.reschedule(max(id), delay => '1 hour') from lockstep.job")
			producer.exec("commit")
			want("the lane", s.lane("k"), "a:r b:w")
			want("said", said, "busy")
			want("with a job behind it", code(s.try("select lockstep.reschedule($1, delay => '1 hour')", id)), "LS006")
		},
	})
}

func TestSeen_ALossIsFoundOnceUnderAResume(t *testing.T) {
	prove(t, rule{
		must: "a claim that finds a job lost, and can't park it since its resume is not committed, leaves it as nobody's: the next claim would record the loss again, and fail",
		without: map[string]cut{"nobody's": {[]edit{{
			"   where j.id = any (ids) and j.worker <> @schema@.nobody();\n  shared :=", "   where false;\n  shared :=",
		}}, "23505"}},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, tenant) values ('k', 't')")
			s.claimOne()
			s.exec("update lockstep.job set lease_until = '-infinity'")
			s.pause(store.Scope{Tenant: "t"})
			s.put("", "other")
			resumer := s.enter()
			resumer.exec("begin; select lockstep.resume(tenant => 't')")
			want("of another tenant", nameOf(s.claimOne()), "other")
			want("claimed", len(s.claim(10)), 0)
			resumer.exec("rollback")
			want("parked", s.look("default", 10).Parked, 1)
			s.resume(store.Scope{Tenant: "t"})
			want("attempt", s.claimOne().Attempt, 2)
			want("losses", value[int](s.session, "select lost from lockstep.job where tenant = 't'"), 1)
			want("on record", value[int](s.session, "select count(*)::int from lockstep.attempt"), 1)
		},
	})
}

func TestSeen_AResumeTellsOfWhatItHasLeftInOtherQueues(t *testing.T) {
	prove(t, rule{
		must:    "a resume that returned its thousand looks whether another queue has parked jobs: more is what a caller goes on by",
		without: map[string]cut{"look": {[]edit{{"    exit when more and returned >= max;", "    exit when returned >= max;"}}, "more: got false"}},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, tenant, queue) select 'k', 't', q from unnest('{a,b}'::text[]) q, generate_series(1, 1000) n where q = 'a' or n <= 3")
			s.pause(store.Scope{Tenant: "t"})
			want("parked", s.look("a", 10).Parked, 1000)
			want("parked of b", s.look("b", 10).Parked, 3)
			first := s.resume(store.Scope{Tenant: "t"})
			want("returned", first.Returned, 1000)
			want("more", first.More, true)
			second := s.resume(store.Scope{Tenant: "t"})
			want("returned by the second call", second.Returned, 3)
			want("more after it", second.More, false)
		},
	})
}
