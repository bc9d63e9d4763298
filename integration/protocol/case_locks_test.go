package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC27_AClaimLocksWhatItReturns and nothing else, under every plan. Only
// jobs whose lease has ended need a lock.
func TestC27_AClaimLocksWhatItReturns(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("select lockstep.require_home()") // of the very first claim, which holds a lock more
		for _, rows := range []int{5, 50_000} {
			s.exec("truncate lockstep.job")
			s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
				insert into lockstep.job (kind, ordering_key, worker, fence, attempt, lease_until)
				select 'k', i::text, gen_random_uuid(), i, 1, clock_timestamp() - interval '1 s' from generate_series(1, %d) i;
				alter table lockstep.job enable trigger user`, rows))
			for _, plan := range []string{
				"set enable_indexscan = on",
				"set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; set enable_seqscan = on",
				"set enable_nestloop = off; set enable_sort = off",
			} {
				c := s.enter()
				c.exec(plan + "; begin")
				jobs := c.claim(10)
				want("jobs claimed", len(jobs), min(10, rows))
				want("locks held", c.locks(), len(jobs))
				ids := make([]int64, len(jobs))
				for i, job := range jobs {
					ids[i] = job.ID
				}
				want("locks held of what was returned", value[int](c, `select count(*) from lockstep.job j
					join pg_locks l on ((l.classid::bigint << 32) | l.objid::bigint) = lockstep.run_lock(j.queue, j.tenant, j.ordering_key, j.id)
					 and l.locktype = 'advisory' and l.pid = pg_backend_pid() where j.id = any ($1)`, ids), len(jobs))
				c.exec("rollback")
			}
		}
		s.exec("truncate lockstep.job")
		s.put("k", "fresh")
		s.exec("begin")
		want("jobs claimed", len(s.claim(10)), 1)
		want("locks held for a fresh job", s.locks(), 0)
	})
}

// TestC28_LocksOfQueuesAndInstallsAreTheirOwn: the same key in another queue,
// tenant or schema is another lane, also while a transactional handler holds it.
func TestC28_LocksOfQueuesAndInstallsAreTheirOwn(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.db.Migrate(t, migrations.Config{Schema: "other"})
		holder := s.enter()
		s.put("x", "held")
		job := holder.claimOne()
		holder.exec("begin")
		want("run lock", holder.hold(job), true)
		holder.put("x", "more")
		holder.exec("set constraints all immediate") // the entry lock too

		s.exec("set lock_timeout = '1s'")
		s.exec("insert into lockstep.job (kind, queue, ordering_key) values ('k', 'b', 'x')")
		s.exec("insert into lockstep.job (kind, tenant, ordering_key) values ('k', 't', 'x')")
		s.exec("insert into other.job (kind, ordering_key) values ('k', 'x')")
		s.startsAtOnce(s.store, "b")
		s.startsAtOnce(s.store, "default")
		s.startsAtOnce(s.store.In("other"), "default")
		holder.exec("rollback")
	})
}

// startsAtOnce sees that the one job of a queue can be claimed and held.
func (s *scene) startsAtOnce(db *store.Store, queue string) {
	claimed, err := db.Claim(s.t.Context(), store.ClaimArgs{Worker: s.worker, Queue: queue, Kinds: []string{"k"}, Max: 9, Lease: time.Minute})
	must("claim", err)
	want("jobs claimed", len(claimed.Jobs), 1)
	held, err := db.HoldLane(s.t.Context(), claimOf(claimed.Jobs[0]))
	must("hold_lane", err)
	want("run lock", held, true)
}

// TestC31_UpkeepThatIsHeldUpHoldsNobodyUp.
func TestC31_UpkeepThatIsHeldUpHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		holder := s.enter()
		for _, name := range []string{"sweep", "upkeep"} {
			holder.exec("select pg_advisory_lock(lockstep.own_mutex($1))", name)
		}
		s.exec("set lock_timeout = '1s'")
		s.exec("begin isolation level repeatable read")
		s.put("k", "a")
		s.exec("commit")
		swept, err := s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("swept", swept.Promoted, 0)
		swept, err = s.store.Sweep(t.Context(), 1000, "default", nil)
		must("sweep of a queue", err)
		want("refused, since the sweep at work may have passed the queue", swept.Refused, 1)
		kept, err := s.store.Upkeep(t.Context())
		must("upkeep", err)
		want("skipped", kept.Skipped, true)

		s.put("l", "b")
		want("finish", s.finish(store.Completed, s.claimOne()), "done")
		holder.exec("select pg_advisory_unlock_all()")
		swept, err = s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("swept when the lock was free", swept.Promoted, 1)
		want("lane", s.lane("k"), "a:r")
	})
}
