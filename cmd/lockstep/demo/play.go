package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	producers = 6
	bursts    = 3 // bulk transactions, at the same time

	// stallLimit is how long nothing may happen before the rest counts as lost.
	stallLimit = 30 * time.Second
)

// play runs producers and dispatchers until every job has ended, or nothing
// happens any more.
func (s *show) play(ctx context.Context) error {
	// The dispatchers open their own connections, as the pool's configuration says.
	dispatchers, err := s.pool(ctx, "dispatchers", 1)
	if err != nil {
		return err
	}
	pool, err := s.pool(ctx, "producers", producers)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	group.Go(func() error { return s.dispatch(running, dispatchers, "demo a") })
	group.Go(func() error { return s.redeploy(running, dispatchers, "demo b") })
	group.Go(func() error { return s.progress.run(running) })
	group.Go(func() error {
		defer stop() // when all is done, the others end
		return s.produce(running, pool)
	})
	return group.Wait()
}

// produce runs the producers for the length of the demo, and then the burst.
func (s *show) produce(ctx context.Context, pool *pgxpool.Pool) error {
	until := time.Now().Add(s.config.Length)
	err := s.each(ctx, pool, producers, func(ctx context.Context, p *producer) error { return p.steady(ctx, until) })
	if err == nil {
		err = s.finish(ctx)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	before := s.list.count()
	err = s.each(ctx, pool, bursts, func(ctx context.Context, p *producer) error {
		return p.burst(ctx, s.config.Burst/bursts)
	})
	if err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	jobs := s.list.jobs[before:]
	_, last := s.tracker.ends(jobs)
	s.drain = drain{jobs: len(jobs), took: last.Sub(began)}
	return nil
}

// each runs n producers at the same time.
func (s *show) each(ctx context.Context, pool *pgxpool.Pool, n int, fn func(context.Context, *producer) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for range n {
		group.Go(func() error {
			return fn(ctx, &producer{
				pool: pool, schema: s.db.schema, list: s.list,
				random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
			})
		})
	}
	return group.Wait()
}

// finish waits until all jobs have ended, or nothing happens any more.
func (s *show) finish(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	seen, since := counts{}, time.Now()
	for {
		now := s.tracker.snapshot()
		if now.done+now.died >= s.list.count() {
			return nil
		}
		if now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > stallLimit {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
