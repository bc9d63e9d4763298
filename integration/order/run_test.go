package order_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// run is one go of a plan in a database of its own.
type run struct {
	plan
	seed   uint64
	t      testing.TB
	db     *testdb.DB
	pool   *pgxpool.Pool
	ledger ledger
	acts   uint64          // how often produce was called
	maimed map[string]bool // lanes that lost a head to a deletion
	stuck  []string        // lanes that waited without a head
}

// do lets everybody loose, waits until all is worked off, and judges. The
// workers are away for a while, as in a deploy, so that lanes fill up.
func (p plan) do(t testing.TB, db *testdb.DB, seed uint64) verdict {
	db.Exec(t, witnessTable)
	r := &run{plan: p, seed: seed, t: t, db: db, pool: openPool(t, db, p.producers+4), maimed: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := int(p.attended * float64(p.transactions))
	end := r.work(ctx)
	refused := r.produce(ctx, before)
	end()
	refused = errors.Join(refused, r.produce(ctx, p.transactions-before))
	end = r.work(ctx)
	left := r.drain(ctx)
	end()
	return r.judge(left, refused)
}

// work lets the workers work, and has jobs cancelled, until it is told to end.
func (r *run) work(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all errgroup.Group
	for range r.workers {
		w := &worker{plan: r.plan, seed: r.seed, pool: openPool(r.t, r.db, r.slots), t: r.t}
		all.Go(func() error { defer w.pool.Close(); return w.run(ctx) })
	}
	d := &disturber{plan: r.plan, draw: drawFor(r.seed, 1), pool: r.pool}
	all.Go(func() error { return every(ctx, r.cancelEvery, d.cancelOne) })
	p := &disturber{plan: r.plan, draw: drawFor(r.seed, 2), pool: r.pool}
	all.Go(func() error { return every(ctx, r.pauseEvery, p.pauseOne) })
	return func() {
		cancel()
		if err := all.Wait(); err != nil {
			r.t.Errorf("a worker, a cancel, or a pause: %v", err)
		}
	}
}

// produce returns when so many transactions of each producer are through, with
// the error of one that was refused. Heads are deleted by hand meanwhile.
func (r *run) produce(ctx context.Context, transactions int) error {
	deleting, stop := context.WithCancel(ctx)
	defer stop()
	r.acts++
	knife := &disturber{plan: r.plan, draw: drawFor(r.seed, 10*r.acts), pool: r.pool, maimed: r.maimed}
	var deletes, producers errgroup.Group
	deletes.Go(func() error { return every(deleting, r.deleteEvery, knife.deleteOne) })
	for n := range r.producers {
		p := &producer{plan: r.plan, draw: drawFor(r.seed, 1000*r.acts+uint64(n)), pool: r.pool, sent: &r.ledger}
		producers.Go(func() error { return p.run(ctx, transactions) })
	}
	refused := producers.Wait()
	stop()
	if err := deletes.Wait(); err != nil {
		r.t.Errorf("deleting: %v", err)
	}
	return refused
}

// openPool returns a pool of n connections, closed when the test ends.
func openPool(t testing.TB, db *testdb.DB, n int) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("%s&pool_max_conns=%d", db.URL, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
