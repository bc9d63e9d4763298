package producers_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// A session keeps the plans that it made when the table was empty, and known to
// be. What it enqueues later must not cost it a look at all the jobs there are.
func TestPlansMadeWhileTheTableWasEmpty(t *testing.T) {
	t.Parallel()
	enqueues := map[string]string{
		"one":    "select lockstep.enqueue('k', ordering_key => 'a', dedupe_key => clock_timestamp()::text)",
		"behind": "select lockstep.enqueue('k', ordering_key => 'full')",
		"some":   "insert into lockstep.job (kind, ordering_key) values ('k', 'a'), ('k', 'b'), ('k', 'full')",
		"many":   `select lockstep.enqueue_many('[{"kind": "k", "ordering_key": "a", "dedupe_key": "1"}, {"kind": "k", "dedupe_key": "1"}]')`,
		"more":   `select lockstep.enqueue_many('[{"kind": "k", "dedupe_key": "1", "dedupe": "replace", "idempotency_key": "1"}, {"kind": "k", "dedupe_key": "2", "dedupe": "one_more"}]')`,
		"noted":  "select lockstep.enqueue('k', dedupe_key => '1', dedupe => 'replace', idempotency_key => clock_timestamp()::text) from generate_series(1, 2)",
		"first":  "delete from lockstep.job where ordering_key = 'full' and stage = 'r'; select lockstep.enqueue('k', ordering_key => 'full')",
	}
	for name, enqueue := range enqueues {
		for _, isolation := range []string{"read committed", "repeatable read"} {
			t.Run(name+" "+isolation, func(t *testing.T) {
				t.Parallel()
				db := testdb.New(t)
				c := newClient(t, db)
				db.Exec(t, "alter table lockstep.job set (autovacuum_enabled = off)")
				db.Exec(t, "vacuum analyze lockstep.job")
				begin := "begin isolation level " + isolation
				for range 7 { // beyond where a plan might still be made for the values
					c.do(begin + ";" + enqueue + "; set constraints all immediate; rollback")
				}
				db.Exec(t, `insert into lockstep.job (kind, ordering_key, dedupe_key)
					select 'k', case when i % 2 = 0 then 'full' else i::text end, i from generate_series(1, 5000) i`)
				c.do(begin)
				before := c.rowsRead()
				c.do(enqueue + "; set constraints all immediate")
				if n := c.rowsRead() - before; n > 100 {
					t.Errorf("enqueueing looked at %d jobs of 5000", n)
				}
			})
		}
	}
}

// rowsRead counts the jobs that the session has looked at, until it commits.
func (c *client) rowsRead() (n int) {
	c.t.Helper()
	err := c.QueryRow(c.t.Context(), `select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)
		from pg_stat_xact_user_tables where relid = 'lockstep.job'::regclass`).Scan(&n)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}
