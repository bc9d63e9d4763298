package protocol_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// manyPaused is how many jobs are paused beside the others: LOCKSTEP_PAUSED, or
// enough to see it.
func manyPaused() int {
	if n, err := strconv.Atoi(os.Getenv("LOCKSTEP_PAUSED")); err == nil {
		return n
	}
	return 50_000
}

// TestWhatIsPausedCostsTheOthersNothing: the jobs of a paused kind, queue or
// tenant stand before the others, never analysed, and claims for those touch what
// they touched without them. Of a tenant they are parked first, a thousand at
// a time, and vacuumed, as autovacuum does.
func TestWhatIsPausedCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]struct {
		scope   store.Scope
		columns string // of the jobs that it covers, "column, …: value, …"
		values  string
	}{
		"kind":   {store.Scope{Kind: "k1"}, "kind", "'k1'"},
		"queue":  {store.Scope{Queue: "paused"}, "kind, queue", "'k0', 'paused'"},
		"tenant": {store.Scope{Tenant: "t"}, "kind, tenant", "'k0', 't'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.exec("set statement_timeout = 0; alter table lockstep.job set (autovacuum_enabled = off)")
				s.load("0", 200, 1)
				before := s.claimBuffers("default", 0, 1)
				s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
					insert into lockstep.job (%s, turn) select %s, i - 100000000 from generate_series(1, %d) i;
					alter table lockstep.job enable trigger user`, load.columns, load.values, manyPaused()))
				s.pause(load.scope)
				began, claims := time.Now(), 0
				for s.claimAny().Parked > 0 {
					claims++
				}
				t.Logf("%d claims parked all of them in %v", claims, time.Since(began))
				s.exec("vacuum lockstep.job")
				after := s.claimBuffers("default", 0, 1)
				t.Logf("%d buffers a claim, %d before", after, before)
				if after > 2*before {
					t.Errorf("a claim touches %d buffers beside %d paused jobs, %d before", after, manyPaused(), before)
				}
			})
		})
	}
}

// claimAny claims one job of k0 or k1, and gives it back.
func (s *scene) claimAny() store.Claimed {
	claimed, err := s.store.Claim(s.t.Context(), store.ClaimArgs{
		Worker: s.worker, Queue: "default", Kinds: []string{"k0", "k1"}, Max: 1, Lease: time.Minute,
	})
	must("claim", err)
	if len(claimed.Jobs) > 0 {
		s.finish(store.Released, claimed.Jobs...)
	}
	return claimed
}

// TestPlansOfPausesMadeWhileTheTableWasEmpty: as TestPlansMadeWhileTheTableWasEmpty,
// for what people do to jobs, and the claims that meet a pause.
func TestPlansOfPausesMadeWhileTheTableWasEmpty(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
		s.exec("vacuum analyze lockstep.job, lockstep.pause")
		const ready, waiting, scheduled = "stage = 'r' and ordering_key is null and worker = lockstep.nobody()", "stage = 'w'", "stage = 's'"
		steps := []struct{ sql, of string }{ // of: which job is $1
			{"select lockstep.pause(tenant => 't')", ""},
			{"select lockstep.claim(gen_random_uuid(), 'default', '{k}', 5, '1 min')", ""},
			{"select lockstep.resume(tenant => 't'), lockstep.unpark()", ""},
			{"select lockstep.paused(array[$1::bigint])", waiting},
			{"select lockstep.reschedule($1, delay => '1 h')", ready},
			{"select lockstep.retry_now($1)", scheduled},
			{"select lockstep.set_priority($1, 3)", waiting},
			{"select waiting_for from lockstep.job_status($1)", waiting},
		}
		step := func(sql, of string) (read int) {
			var args []any
			if of != "" {
				args = []any{value[int64](s.session, "select id from lockstep.job where "+of+" limit 1")}
			}
			before := s.rowsRead()
			s.exec(sql, args...)
			return s.rowsRead() - before
		}
		put := func(n int) {
			s.exec(`insert into lockstep.job (kind, ordering_key, tenant) select 'k', nullif(i % 9, 0), case when i < 7 then 't' else '' end from generate_series(1, $1::int) i`, n)
		}
		s.exec("begin; set constraints all immediate")
		put(400)
		for range 7 { // beyond where a plan might still be made for the values
			for _, do := range steps {
				step(do.sql, do.of)
			}
		}
		s.exec("rollback")
		put(5000)
		for n, do := range steps {
			s.exec("begin")
			// A claim that meets a paused job looks ahead for others.
			if read := step(do.sql, do.of); read > 300 && (n != 1 || read > 1500) {
				s.failf("%s: %d of 5000 jobs were looked at", do.sql, read)
			}
			s.exec("commit")
		}
	})
}
