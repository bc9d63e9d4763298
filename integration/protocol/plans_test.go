package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// A session keeps the plans that it made when the table was empty, and known to
// be. What it claims and reports later must not cost it a look at all the jobs
// there are.
func TestPlansMadeWhileTheTableWasEmpty(t *testing.T) {
	t.Parallel()
	outcomes := []store.Outcome{store.Completed, store.Failed, store.Dead, store.Snoozed, store.Released, store.Cancelled}
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
		s.exec("vacuum analyze lockstep.job")
		lastWaiting := func() int64 {
			return value[int64](s.session, "select max(id) from lockstep.job where stage = 'w'")
		}
		work := func(outcome store.Outcome, waiting int64) {
			job := s.claim(1)[0]
			want("extend", s.extend(job), "extended")
			want("finish", s.finish(outcome, job), "done")
			s.exec("select lockstep.due(), lockstep.sweep(5), lockstep.cancel($1)", waiting)
		}
		s.exec("begin; set constraints all immediate")
		s.exec("insert into lockstep.job (kind, ordering_key) select 'k', i % 9 from generate_series(1, 40) i")
		for range 2 { // beyond where a plan might still be made for the values
			for _, outcome := range outcomes {
				work(outcome, lastWaiting())
			}
		}
		s.exec("rollback")
		s.exec("insert into lockstep.job (kind, ordering_key) select 'k', i % 9 from generate_series(1, 5000) i")
		for _, outcome := range outcomes {
			waiting := lastWaiting() // this look is the test's own, and may read all there is
			s.exec("begin")
			before := s.rowsRead()
			work(outcome, waiting)
			if n := s.rowsRead() - before; n > 200 {
				s.failf("%s: %d of 5000 jobs were looked at", outcome, n)
			}
			s.exec("commit")
		}
	})
}

// rowsRead counts the jobs that the session has looked at, until it commits.
func (c *session) rowsRead() int {
	return value[int](c, `select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::int
		from pg_stat_xact_user_tables where relid = 'lockstep.job'::regclass`)
}
