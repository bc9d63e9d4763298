package order_test

import (
	"context"
	"maps"
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

// drain waits until all is worked off, and returns how many jobs are left.
func (r *run) drain(ctx context.Context) (left int) {
	r.repair(ctx)
	since := map[string]time.Time{}
	return r.until(ctx, func() (int, bool, error) {
		lanes, err := r.headless(ctx)
		maps.DeleteFunc(since, func(lane string, _ time.Time) bool { return !slices.Contains(lanes, lane) })
		for _, lane := range lanes {
			if since[lane].IsZero() {
				since[lane] = time.Now()
			}
			if time.Since(since[lane]) > headless {
				r.stuck = append(r.stuck, lane)
			}
		}
		if err != nil {
			return 0, true, err
		}
		left, err := r.live(ctx)
		return left, left == 0 || r.stuck != nil, err
	})
}

// repair has lanes that lost their head to a deletion swept, which dispatchers
// do by themselves, but only every 30 s. From then on, all lanes must get on
// without help.
func (r *run) repair(ctx context.Context) {
	r.until(ctx, func() (int, bool, error) {
		if _, err := store.New(r.pool).Sweep(ctx, 1000, "", nil); err != nil {
			return 0, true, err
		}
		lanes, err := r.headless(ctx)
		lanes = slices.DeleteFunc(lanes, func(lane string) bool { return !r.maimed[lane] })
		return len(lanes), len(lanes) == 0, err
	})
}

// until looks until that is the end of it, or nothing has happened for too
// long, and returns what is left then.
func (r *run) until(ctx context.Context, look func() (left int, end bool, err error)) int {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last [2]int
	changed := time.Now()
	for {
		left, end, err := look()
		if err != nil {
			r.t.Errorf("waiting for the end: %v", err)
			return left
		}
		log := testdb.Value[int](r.t, r.db, `select coalesce(max(seq), 0)::int from witness.log`)
		if now := [2]int{left, log}; now != last {
			last, changed = now, time.Now()
		}
		if end || time.Since(changed) > standstill {
			return left
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return left
		}
	}
}

// live counts the jobs that are not worked off.
func (r *run) live(ctx context.Context) (n int, err error) {
	err = r.pool.QueryRow(ctx, `select count(*) from lockstep.job`).Scan(&n)
	return n, err
}

// headless are the lanes in which jobs wait, and nobody is the head.
func (r *run) headless(ctx context.Context) ([]string, error) {
	rows, err := r.pool.Query(ctx, `select ordering_key from lockstep.job
		group by 1 having bool_or(stage = 'w') and not bool_or(stage in ('r', 'b'))`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
