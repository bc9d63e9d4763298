package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store/verify"
)

// final adds what the database has on record at the end.
func (r Record) final(ctx context.Context, conn *pgx.Conn) (Record, error) {
	rows, err := conn.Query(ctx, `
		select id, payload->>'marker', outcome, fence from lockstep.finished_job
		union all select id, payload->>'marker', 'dead', fence from lockstep.dead_job
		union all select id, payload->>'marker', 'live', fence from lockstep.job
		                  where id not in (select id from lockstep.dead_job)`)
	if err != nil {
		return r, err
	}
	r.Final, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Final, err error) {
		return f, row.Scan(&f.ID, &f.Marker, &f.State, &f.Fence)
	})
	if err != nil {
		return r, err
	}
	if r.Attempts, err = mapOf[int64, string](ctx, conn, "select fence, outcome from lockstep.attempt"); err != nil {
		return r, err
	}
	r.InTx, err = mapOf[string, []int64](ctx, conn, "select marker, array_agg(fence) from effect group by marker")
	return r, err
}

func mapOf[K comparable, V any](ctx context.Context, conn *pgx.Conn, sql string) (map[K]V, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	all := map[K]V{}
	var key K
	var value V
	_, err = pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		all[key] = value
		var zero V
		value = zero // a slice must not be filled again
		return nil
	})
	return all, err
}

// verify has Lockstep's own verification say the same, and looks for what
// nobody may leave behind.
func (s *stage) verify(r Record) {
	s.t.Helper()
	var ids strings.Builder
	given := 0
	for _, t := range r.Transactions {
		for _, job := range t.Jobs {
			if t.Fate == committed {
				fmt.Fprintf(&ids, "%d\n", job.ID)
				given++
			}
		}
	}
	s.cluster.with(func(ctx context.Context, conn *pgx.Conn) error {
		report, err := verify.Run(ctx, conn, verify.Config{IDs: strings.NewReader(ids.String())})
		if err != nil {
			return err
		}
		for _, finding := range report.Findings {
			s.t.Errorf("lockstep verify: %v", finding)
		}
		if !report.CommitTimes || report.Checked.IDs.Given != int64(given) {
			s.t.Errorf("lockstep verify compared no commit times, or not all of %d ids: %+v", given, report.Checked)
		}
		var locks int
		if err := conn.QueryRow(ctx, `select count(*) from pg_locks where locktype = 'advisory'
			and database = (select oid from pg_database where datname = current_database())`).Scan(&locks); err != nil {
			return err
		}
		if locks > 0 {
			s.t.Errorf("%d advisory locks are left", locks)
		}
		return nil
	})
}

// complain fails the test with what the judge found, the first of each class.
func complain(t testing.TB, seed uint64, found []Violation) {
	t.Helper()
	const most = 5
	counts := map[string]int{}
	for _, v := range found {
		if counts[v.Class]++; counts[v.Class] <= most {
			t.Errorf("%s: %s", v.Class, v.Text)
		}
	}
	for class, n := range counts {
		if n > most {
			t.Errorf("%s: %d in all", class, n)
		}
	}
	if len(found) > 0 {
		t.Errorf("the plan again: -faults.seed=%d", seed)
	}
}
