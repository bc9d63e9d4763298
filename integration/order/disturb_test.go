package order_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
)

// disturber gets in the way of a run: it cancels waiting jobs, pauses lanes, and
// deletes heads by hand. What it does is in the witness's log before it is committed.
type disturber struct {
	plan
	draw
	pool *pgxpool.Pool

	maimed map[string]bool // lanes that lost a head
}

// every does what until ctx ends.
func every(ctx context.Context, interval time.Duration, what func(context.Context) error) error {
	if interval == 0 {
		return nil
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := what(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

// cancelOne cancels one of the first waiting jobs of a lane, drawn or the next
// that has one, and stays in its transaction for a moment.
func (d *disturber) cancelOne(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			with lane as (
				select ordering_key from lockstep.job
				 where queue = 'default' and tenant = '' and ordering_key >= $1 and stage = 'w'
				 order by queue, tenant, ordering_key limit 1),
			waiting as (
				select j.id, row_number() over (order by j.lane_turn) as place, count(*) over () as places
				  from (select w.id, w.lane_turn from lockstep.job w
				         where w.queue = 'default' and w.tenant = '' and w.ordering_key = (select ordering_key from lane) and w.stage = 'w'
				         order by w.lane_turn limit $3) j),
			target as materialized (select id from waiting where place = 1 + floor($2::float8 * places)),
			answer as materialized (select id, lockstep.cancel(id) as said from target)
			insert into witness.log (job, event) select id, said from answer where said in ('cancelled', 'requested')`,
			d.draw.lane(d.plan), d.Float64(), d.cancelDepth)
		d.rest(d.cancelStay)
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "LS005" {
		return nil // deleted by hand in between
	}
	return err
}

// pauseOne pauses a lane, or everything, for a moment.
func (d *disturber) pauseOne(ctx context.Context) error {
	db := store.New(d.pool)
	scope := store.Scope{Queue: "default", OrderingKey: d.draw.lane(d.plan)}
	if d.chance(0.1) {
		scope.OrderingKey = ""
	}
	if _, err := db.Pause(ctx, scope, store.PauseNote{}); err != nil {
		return err
	}
	d.rest(d.pauseFor)
	for {
		_, err := db.Resume(ctx, scope)
		if !errors.Is(err, store.ErrBusy) {
			return err
		}
	}
}

// deleteOne deletes the head of a lane, whoever runs it.
func (d *disturber) deleteOne(ctx context.Context) error {
	lane := d.draw.lane(d.plan)
	d.maimed[lane] = true
	_, err := d.pool.Exec(ctx, `
		with gone as (
			delete from lockstep.job where id = (
				select id from lockstep.job where ordering_key = $1 and stage in ('r', 'b'))
			returning id)
		insert into witness.log (job, event) select id, 'deleted' from gone`, lane)
	return err
}
