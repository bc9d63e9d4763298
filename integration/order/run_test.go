package order_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	maimed []string // lanes that lost a head to a deletion
	stuck  []string // lanes that waited without a head
}

// do lets everybody loose, waits until all is worked off, and judges.
func (p plan) do(t testing.TB, db *testdb.DB, seed uint64) verdict {
	db.Exec(t, witnessTable)
	r := &run{plan: p, seed: seed, t: t, db: db, pool: openPool(t, db, p.producers+4)}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var refused error
	if p.late {
		refused = r.produce(ctx)
	}
	workers := r.startWorkers(ctx)
	cancels := r.startCancels(ctx)
	if !p.late {
		refused = r.produce(ctx)
	}
	left := r.drain(ctx)
	end()
	if err := errors.Join(workers.Wait(), cancels.Wait()); err != nil {
		t.Errorf("a worker or a cancel: %v", err)
	}
	return r.judge(left, refused)
}

func (r *run) startWorkers(ctx context.Context) *errgroup.Group {
	var workers errgroup.Group
	for range r.workers {
		w := &worker{plan: r.plan, seed: r.seed, pool: openPool(r.t, r.db, r.slots), t: r.t}
		workers.Go(func() error { return w.run(ctx) })
	}
	return &workers
}

func (r *run) startCancels(ctx context.Context) *errgroup.Group {
	var cancels errgroup.Group
	d := &disturber{plan: r.plan, draw: drawFor(r.seed, 1), pool: r.pool}
	cancels.Go(func() error { return every(ctx, r.cancelEvery, d.cancelOne) })
	return &cancels
}

// produce returns when all is sent, with the error of a producer that was
// refused. Heads are deleted by hand meanwhile.
func (r *run) produce(ctx context.Context) error {
	deleting, stop := context.WithCancel(ctx)
	defer stop()
	knife := &disturber{plan: r.plan, draw: drawFor(r.seed, 2), pool: r.pool, maimed: map[string]bool{}}
	var deletes, producers errgroup.Group
	deletes.Go(func() error { return every(deleting, r.deleteEvery, knife.deleteOne) })
	for n := range r.producers {
		p := &producer{plan: r.plan, draw: drawFor(r.seed, 100+uint64(n)), pool: r.pool, sent: &r.ledger}
		producers.Go(func() error { return p.run(ctx) })
	}
	refused := producers.Wait()
	stop()
	if err := deletes.Wait(); err != nil {
		r.t.Errorf("deleting: %v", err)
	}
	r.maimed = slices.Collect(maps.Keys(knife.maimed))
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
