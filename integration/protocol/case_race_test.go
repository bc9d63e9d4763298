package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC32_C36_ClaimersRaceForKeys: with a pause where a race would be, lanes
// never overlap, keep their order, and no claimer gets an error.
func TestC32_C36_ClaimersRaceForKeys(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]edit{
		"between candidates and claim": {
			"  jobs := @schema@.grant_claims(claim.worker, ids, claim.lease);",
			"  perform pg_sleep(0.02); jobs := @schema@.grant_claims(claim.worker, ids, claim.lease);",
		},
		"between next job and finish": {
			"  perform @schema@.promote(array_remove(successors, null));",
			"  perform pg_sleep(0.02); perform @schema@.promote(array_remove(successors, null));",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raceForKeys(t, testdb.NewFrom(t, edited(t, []edit{pause})))
		})
	}
}

func raceForKeys(t *testing.T, db *testdb.DB) {
	const keys, each, claimers = 60, 15, 16
	j := newJournal()
	for i := range keys * each {
		id := testdb.Value[int64](t, db, "insert into lockstep.job (kind, queue, ordering_key) values ('k', 'skips', $1) returning id", strconv.Itoa(i%keys))
		j.jobs[id] = &fact{lane: laneOf("skips", "", strconv.Itoa(i%keys))}
	}
	workers, ctx := errgroup.WithContext(t.Context())
	for i := range claimers {
		a := &actor{journal: j, conn: db.Conn(t), ctx: ctx, worker: store.NewWorkerID(), rand: rand.New(rand.NewPCG(1, uint64(i))), lease: time.Minute, calm: true}
		workers.Go(func() error {
			for range 5 * keys * each {
				lives, err := a.claim("skips")
				if err != nil {
					return err
				}
				time.Sleep(5 * time.Millisecond) // the handlers
				if err := a.report(lives); err != nil {
					return err
				}
				if left, err := a.some("job"); left == 0 || err != nil {
					return err
				}
			}
			return fmt.Errorf("jobs are left")
		})
	}
	if err := workers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, problem := range j.judge() {
		t.Error(problem)
	}
	order := j.starts()
	if len(order) != keys {
		t.Errorf("%d lanes ran, want %d", len(order), keys)
	}
	for lane, ids := range order {
		if len(ids) != each || !slices.IsSorted(ids) {
			t.Errorf("lane %s ran %v, want %d jobs in order", lane, ids, each)
		}
	}
}

// TestC34_ABlockedOrDeepLaneStarvesNobody.
func TestC34_ABlockedOrDeepLaneStarvesNobody(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("select lockstep.set_queue('default', on_dead => 'block'); alter table lockstep.job set (autovacuum_enabled = off)")
		s.exec("insert into lockstep.job (kind, ordering_key) select 'k', 'blocked' from generate_series(1, 10000)")
		want("finish", s.finish(store.Dead, s.claimOne()), "done")
		s.exec("insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 200) i")
		want("jobs of free keys", len(s.claim(1000)), 200)

		least, most := 0, 0
		for keys, each := range map[int]int{1600: 25, 400: 100, 40: 1000} {
			s.exec("truncate lockstep.job")
			s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
				insert into lockstep.job (kind, ordering_key, stage, lane_turn)
				select 'k0', (i %% %d)::text, case when i <= %d then 'r' else 'w' end::"char", i from generate_series(1, %d) i;
				alter table lockstep.job enable trigger user`, keys, keys, keys*each))
			buffers := s.claimBuffers("default", 0, 0)
			t.Logf("%d keys x %d jobs: %d buffers a claim", keys, each, buffers)
			if least == 0 || buffers < least {
				least = buffers
			}
			most = max(most, buffers)
		}
		if most > 2*least {
			t.Errorf("a claim touches %d to %d buffers, by the shape of the lanes", least, most)
		}
	})
}
