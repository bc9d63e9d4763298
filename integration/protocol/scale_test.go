package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

func TestSetsStayFastOnATableNeverAnalysed(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
		s.lanes(1, 300)
		s.load("''", 1200, 1)
		few := s.turnOver(500)
		s.lanes(1000, 20_000)
		s.load("''", 60_000, 1)
		want("analysed", value[int](s.session, "select analyze_count + autoanalyze_count from pg_stat_user_tables where relid = 'lockstep.job'::regclass"), 0)
		many := s.turnOver(500)
		t.Logf("claim and finish of 500 jobs: %v of a CPU among few, %v among 100,000", few, many)
		if many > 4*few {
			t.Errorf("claim and finish of 500 jobs take %v of a CPU among 100,000, %v among few", many, few)
		}
	})
}

// lanes makes lanes of kind k with one job that is ready and one that waits.
func (s *scene) lanes(from, n int) {
	s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
		insert into lockstep.job (kind, ordering_key, stage, lane_turn, turn)
		select 'k', i::text, stage, lockstep.next_turn(), lockstep.next_turn()
		  from generate_series(%d, %d) i, unnest('{r,w}'::"char"[]) stage;
		alter table lockstep.job enable trigger user`, from, from+n-1))
}

// turnOver is what it takes to claim and finish n jobs, 150 of them with a key.
// Nothing stays.
func (s *scene) turnOver(n int) time.Duration {
	c := s.enter()
	c.exec("begin")
	defer c.exec("rollback")
	c.exec("update lockstep.job set turn = -id, kind = 'k' where id in (select id from lockstep.job where ordering_key is null order by id limit $1)", n-150)
	once := func() {
		c.exec("savepoint s")
		jobs := c.claim(n)
		want("jobs claimed", len(jobs), n)
		c.finish(store.Completed, jobs...)
		c.exec("rollback to s")
	}
	once() // the first one reads the catalog
	return c.cpu(once)
}

func TestEnqueueManyOf100000(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job set (autovacuum_enabled = off)")
		keyed := func(i int) store.NewJob { return store.NewJob{Kind: "k", OrderingKey: fmt.Sprint(i % 5000)} }
		s.enqueue(100, keyed) // the first one reads the catalog
		few, many := s.enqueue(5000, keyed), s.enqueue(100_000, keyed)
		t.Logf("enqueue_many: %v of a CPU for 5,000 jobs, %v for 100,000", few, many)
		if many > 40*few {
			t.Errorf("enqueue_many takes %v of a CPU for 100,000 jobs, %v for 5,000", many, few)
		}
		deduped := func(i int) store.NewJob { return store.NewJob{Kind: "k", DedupeKey: fmt.Sprint(i * 7919 % 1_000_003)} }
		few, many = s.enqueue(1000, deduped), s.enqueue(15_000, deduped)
		t.Logf("with dedupe keys: %v of a CPU for 1,000 jobs, %v for 15,000", few, many)
		if many > 30*few {
			t.Errorf("with dedupe keys enqueue_many takes %v of a CPU for 15,000 jobs, %v for 1,000", many, few)
		}
	})
}

// enqueue is what it takes to enqueue n jobs and commit. They do not stay.
func (s *scene) enqueue(n int, job func(i int) store.NewJob) time.Duration {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = job(i)
	}
	c := s.enter()
	took := c.cpu(func() {
		must("enqueue_many", pgx.BeginFunc(s.t.Context(), c.conn, func(tx pgx.Tx) error {
			answers, err := store.New(tx).EnqueueMany(s.t.Context(), jobs)
			want("answers", len(answers), n)
			return err
		}))
	})
	want("jobs placed", value[int](c, "select count(*) from lockstep.job where stage in ('r', 'w')"), n)
	c.exec("truncate lockstep.job")
	return took
}
