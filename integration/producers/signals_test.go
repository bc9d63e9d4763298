package producers_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// listen listens to a schema's channel.
func (c *client) listen(schema string) {
	c.t.Helper()
	var channel string
	quoted := pgx.Identifier{schema}.Sanitize()
	if err := c.QueryRow(c.t.Context(), "select "+quoted+".channel()").Scan(&channel); err != nil {
		c.t.Fatal(err)
	}
	c.do("listen " + pgx.Identifier{channel}.Sanitize())
}

// heard counts the signals of what has committed until now: a notification of
// its own comes after them.
func (c *client) heard() (n int) {
	c.t.Helper()
	c.do("listen own; select pg_notify('own', '')")
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	for {
		notification, err := c.WaitForNotification(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		if notification.Channel == "own" {
			return n
		}
		n++
	}
}

// A transaction signals once for each queue and class, however much it inserts
// (C11, C61), and what merely waits not at all.
func TestOneSignalForEachQueue(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c, listener := newClient(t, db), newClient(t, db)
	listener.listen("lockstep")
	for _, test := range []struct {
		sql  string
		want int
	}{
		{"insert into lockstep.job (kind) select 'k' from generate_series(1, 10000)", 1},
		{"insert into lockstep.job (kind, ordering_key) select 'k', i from generate_series(1, 1000) i", 1},
		{"insert into lockstep.job (kind, ordering_key) select 'k', i from generate_series(1, 1000) i", 0},
		{"insert into lockstep.job (kind, run_at) select 'k', now() + i * '1 hour'::interval from generate_series(1, 100) i", 1},
		{"insert into lockstep.job (kind, queue) select 'k', 'q' || i % 3 from generate_series(1, 99) i", 3},
		{"insert into lockstep.job (kind, payload) values ('k', to_jsonb(repeat('x', 7990)))", 1},
		{"insert into lockstep.job (kind, payload) values ('k', to_jsonb(repeat('x', 8001)))", 1},
		{"begin; insert into lockstep.job (kind) values ('k'); insert into lockstep.job (kind) values ('k'); insert into lockstep.job (kind, ordering_key) values ('k', 'new'); commit", 1},
		{"begin; savepoint s; insert into lockstep.job (kind) values ('k'); rollback to s; insert into lockstep.job (kind) values ('k'); commit", 1},
		{"begin; insert into lockstep.job (kind) values ('k'); rollback", 0},
		{"begin; set local lockstep.signals = off; insert into lockstep.job (kind) values ('k'); insert into lockstep.job (kind, ordering_key) values ('k', 'quiet'); commit", 0},
	} {
		c.do(test.sql)
		if n := listener.heard(); n != test.want {
			t.Errorf("%d signals, want %d, of: %s", n, test.want, test.sql)
		}
	}
}

// BenchmarkC13 is what a NOTIFY costs: 64 writers, one insert in each
// transaction, with signals and without.
func BenchmarkC13(b *testing.B) {
	for _, signals := range []string{"on", "off"} {
		b.Run("signals "+signals, func(b *testing.B) {
			const writers = 64
			db := testdb.New(b)
			clients := make(chan *client, writers)
			for range writers {
				c := newClient(b, db)
				c.do("set lockstep.signals = " + signals)
				clients <- c
			}
			b.SetParallelism(writers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				c := <-clients
				for pb.Next() {
					c.do("insert into lockstep.job (kind) values ('k')")
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}
