package order_test

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

const (
	// headless is how long a lane may wait without a head, once nobody enters
	// lanes any more, before it counts as stuck.
	headless = 5 * time.Second
	// standstill is how long nothing at all may happen before a run is given up.
	standstill = 20 * time.Second
)

// drain waits until the lanes that lost no head are worked off, without any
// help; then the others, which a sweep gives a head. It returns how many jobs
// are left.
func (r *run) drain(ctx context.Context) int {
	r.stuck = r.drainWhole(ctx)
	return r.until(ctx, func() (int, error) {
		if _, err := store.New(r.pool).Sweep(ctx, 1000, "", nil); err != nil {
			return 0, err
		}
		return r.live(ctx, nil)
	})
}

// drainWhole returns the lanes that were stuck: seen without a head, again and
// again, although jobs waited in them.
func (r *run) drainWhole(ctx context.Context) (stuck []string) {
	since := map[string]time.Time{}
	r.until(ctx, func() (int, error) {
		lanes, err := r.headless(ctx, r.maimed)
		for lane := range since {
			if !slices.Contains(lanes, lane) {
				delete(since, lane)
			}
		}
		for _, lane := range lanes {
			if since[lane].IsZero() {
				since[lane] = time.Now()
			}
			if time.Since(since[lane]) > headless {
				stuck = append(stuck, lane)
			}
		}
		if err != nil || stuck != nil {
			return 0, err
		}
		return r.live(ctx, r.maimed)
	})
	return stuck
}

// until looks until nothing is left, or nothing has happened for too long.
func (r *run) until(ctx context.Context, look func() (left int, err error)) int {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last [2]int
	changed := time.Now()
	for {
		left, err := look()
		if err != nil {
			r.t.Errorf("waiting for the end: %v", err)
			return left
		}
		log := testdb.Value[int](r.t, r.db, `select coalesce(max(seq), 0)::int from witness.log`)
		if now := [2]int{left, log}; now != last {
			last, changed = now, time.Now()
		}
		if left == 0 || time.Since(changed) > standstill {
			return left
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return left
		}
	}
}

// live counts the jobs that are not worked off, but for some lanes.
func (r *run) live(ctx context.Context, but []string) (n int, err error) {
	err = r.pool.QueryRow(ctx, `select count(*) from lockstep.job where ordering_key <> all (coalesce($1, '{}'::text[]))`, but).Scan(&n)
	return n, err
}

func (r *run) headless(ctx context.Context, but []string) ([]string, error) {
	rows, err := r.pool.Query(ctx, `select ordering_key from lockstep.job where ordering_key <> all (coalesce($1, '{}'::text[]))
		group by 1 having bool_or(stage = 'w') and not bool_or(stage in ('r', 'b'))`, but)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
