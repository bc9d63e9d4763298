package protocol_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	limitedScans = `select r.* from unnest(wanted) k(kind)
       cross join lateral (
         select j.id, j.priority, j.turn, j.tenant, j.ordering_key, j.worker <> @schema@.nobody() as suspect,
                @schema@.text_bound(j.payload, j.headers) as bound
           from @schema@.job j
          where j.queue = claim.queue and j.kind = k.kind and j.stage = 'r' and j.lease_until <= claim.looked_at and not j.settled
          order by j.priority desc, j.turn
          limit claim.max for update skip locked) r`
	oneSort = `select r.* from (
         select j.id, j.priority, j.turn, j.tenant, j.ordering_key, j.worker <> @schema@.nobody() as suspect,
                @schema@.text_bound(j.payload, j.headers) as bound
           from @schema@.job j
          where j.queue = claim.queue and j.kind = any (claim.kinds) and j.stage = 'r' and j.lease_until <= claim.looked_at and not j.settled
          order by j.priority desc, j.turn
          limit claim.max for update skip locked) r`
	byKind    = "on @schema@.job (queue, kind, priority desc, turn) where stage = 'r';"
	notByKind = "on @schema@.job (queue, priority desc, turn) where stage = 'r';"
)

func TestSeen_AClaimIsOneLimitedScanPerKind(t *testing.T) {
	prove(t, rule{
		must: "a claim reads one limited scan per kind: one sort over many kinds reads all that is ready, and one line for all kinds reads past the others'",
		without: map[string]cut{
			"scan per kind": {[]edit{{limitedScans, oneSort}}, "after:"},
			"line per kind": {[]edit{{byKind, notByKind}}, "after:"},
		},
		scene: func(s *scene) {
			s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
			for _, kinds := range [][2]int{{0, 0}, {1, 10}} {
				s.exec("truncate lockstep.job")
				s.load("i % 11", 2000, 1)
				before := s.claimBuffers("default", kinds[0], kinds[1])
				s.exec("truncate lockstep.job")
				s.load("i % 11", 2000, 1)
				s.load("99", 20_000, -1) // of a kind that nobody here handles, before all
				s.load("i % 11", 20_000, 0)
				if after := s.claimBuffers("default", kinds[0], kinds[1]); after > 2*before {
					s.failf("buffers of a claim with kinds %v, after: %d, before: %d", kinds, after, before)
				}
			}
		},
	})
}

func TestSeen_ALiveTransactionalHandlerKeepsItsClaim(t *testing.T) {
	prove(t, rule{
		must: "an expired job whose run lock is held keeps fence, worker and attempt, and its lease moves on: lawful work would be thrown away, and a rival would loop",
		without: map[string]cut{
			"run lock": {[]edit{{
				"if not pg_try_advisory_xact_lock(@schema@.run_lock(job.queue, job.tenant, job.ordering_key, job.id)) then", "if false then",
			}}, "jobs taken by a rival: got 1"},
			"lease": {[]edit{{"lease_until = greatest(moment + '100 ms',", "lease_until = least(j.lease_until,"}}, "a rival looks again at once"},
		},
		scene: func(s *scene) {
			handler, rival := s.enter(), s.enter()
			for _, key := range []string{"k", ""} {
				s.put(key, "a")
				job := handler.claimOne()
				handler.exec("begin")
				want("run lock", handler.hold(job), true)
				s.expire()
				want("jobs taken by a rival", len(rival.claim(10)), 0)
				look := rival.look("default", 10)
				if look.More || look.LeaseEnd.Sub(look.LookedAt) < time.Second {
					s.failf("a rival looks again at once: more %v, at %v, looked at %v", look.More, look.LeaseEnd, look.LookedAt)
				}
				want("attempts", value[int](s.session, "select attempt from lockstep.job"), 1)
				want("finish", handler.settle(job), map[string]string{"k": "pending", "": "done"}[key])
				handler.exec("commit")
				want("after the commit", handler.finish(store.Completed, job), map[string]string{"k": "done", "": "already"}[key])
			}
		},
	})
}

func TestSeen_APoisonJobDoesNotTakeItsNeighboursAlong(t *testing.T) {
	prove(t, rule{
		must: "from its second loss on a job goes into backoff with jitter: one poison job would take the innocent 49 of its batch to their last attempt",
		without: map[string]cut{"backoff": {[]edit{{
			"elsif job.lost = 0 then\n      alive", "elsif true then\n      alive",
		}}, "died with the poison: got 49"}},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, payload, max_attempts) select 'k', jsonb_build_object('n', i::text), 5 from generate_series(1, 50) i")
			starts := 0
			for range 1000 {
				worker := s.enterWorker()
				batch := worker.claim(50)
				poisoned := false
				for _, job := range batch {
					poisoned = poisoned || nameOf(job) == "25"
				}
				switch {
				case poisoned:
					starts++
					s.expire()
				case len(batch) > 0:
					worker.finish(store.Completed, batch...)
				case value[bool](s.session, "select exists (select from lockstep.job)"):
					s.nextDue()
				default:
					want("starts of the poison job", starts, 5)
					want("innocent jobs that died with the poison", value[int](s.session, "select count(*) from lockstep.dead_job where payload ->> 'n' <> '25'"), 0)
					want("innocent jobs completed", value[int](s.session, "select count(*) from lockstep.finished_job"), 49)
					want("what the poison job died of", value[string](s.session, "select error from lockstep.dead_job"), "worker lost")
					return
				}
			}
			s.failf("jobs are left")
		},
	})
}

// enterWorker is the same session as another worker: the last one was killed.
func (s *scene) enterWorker() *session {
	return &session{t: s.t, conn: s.conn, store: s.store, worker: store.NewWorkerID()}
}

// nextDue moves time on to when the next job falls due.
func (s *scene) nextDue() {
	s.exec(`update lockstep.job set run_at = run_at - (select min(run_at) from lockstep.job where hold = '-' and stage in ('s', 'b')) + clock_timestamp()
		where hold = '-' and stage in ('s', 'b')`)
	_, err := s.store.Due(s.t.Context(), 200)
	must("due", err)
}

func TestSeen_AKindAskedForTwiceIsOne(t *testing.T) {
	prove(t, rule{
		must: "a claim looks for a kind once, however often it is asked for: else its jobs count twice among max, and more does not tell of those left",
		without: map[string]cut{"once": {[]edit{{
			"    return array(select distinct k from unnest(ready_kinds.kinds) k);", "    return ready_kinds.kinds;",
		}}, "claimed: got 2, want 4"}},
		scene: func(s *scene) {
			s.put("", "a", "b", "c", "d", "e", "f")
			want("claimed", value[int](s.session, "select json_array_length(jobs) from lockstep.claim(gen_random_uuid(), 'default', '{k,k}', 4, '1 min')"), 4)
		},
	})
}
