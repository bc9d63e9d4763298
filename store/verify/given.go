package verify

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// pageIDs is how many ids are looked for at once.
const pageIDs = 10_000

// givenSQL is where the jobs of ids are. Each page sees a state of its own, so
// that a list may still grow while it is read.
const givenSQL = `
with place as (
  select u.id, case
           when (select true from @schema@.job j where j.id = u.id and j.hold <> 'x' limit 1) then 'live'
           when (select true from @schema@.dead_job d where d.id = u.id limit 1) then 'dead'
           when (select true from @schema@.job j where j.id = u.id limit 1) then 'live'
           else (select f.outcome from @schema@.finished_job f where f.id = u.id limit 1)
         end as place
    from unnest($1::bigint[]) u(id)
)
select count(*) filter (where p.place = 'live'), count(*) filter (where p.place = 'completed'),
       count(*) filter (where p.place = 'cancelled'), count(*) filter (where p.place = 'dead'),
       coalesce(array_agg(p.id) filter (where p.place is null), '{}'),
       array(select c.id from @schema@.discarded c where c.id = any (select g.id from place g where g.place is null))
  from place p`

// youngSQL is the least id of which it is sure that history still has it: ids
// grow with time, it is the first after the last one known to be older than
// what is surely kept. Where nothing is, as the schema itself is not, it is any id.
const youngSQL = `
with known as (
  select f.id, f.created_at from @schema@.finished_job f union all
  select d.id, d.created_at from @schema@.dead_job d union all
  select j.id, j.created_at from @schema@.job j)
select case when old.id is null and (select min(m.applied_at) from @schema@.migration m) >= $1::timestamptz then 1
            else coalesce((select min(k.id) from known k where k.created_at >= $1::timestamptz and k.id > coalesce(old.id, 0)), $2::bigint) end
  from (select max(o.id) as id from known o where o.created_at < $1::timestamptz) old`

// given looks for the ids of the producer's list.
func (r *run) given(ctx context.Context) error {
	if r.config.IDs == nil {
		return nil
	}
	r.begin(0)
	var young int64
	err := r.snapshot(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, r.sql(youngSQL), r.facts.keptFrom, int64(math.MaxInt64)).Scan(&young)
	})
	if err != nil {
		return err
	}
	list, ids := newList(r.config.IDs), make([]int64, 0, pageIDs)
	for {
		if ids, err = list.page(ids, pageIDs); err != nil || len(ids) == 0 {
			return err
		}
		if err := r.find(ctx, ids, young); err != nil {
			return err
		}
		r.step.Rows += int64(len(ids))
		r.config.OnProgress(r.step)
	}
}

// find looks for one page of ids.
func (r *run) find(ctx context.Context, ids []int64, young int64) error {
	var at IDs
	var absent, discarded []int64
	err := r.snapshot(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'on', true)"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, r.sql(givenSQL), ids).
			Scan(&at.Live, &at.Completed, &at.Cancelled, &at.Dead, &absent, &discarded)
	})
	if err != nil {
		return err
	}
	sum := &r.report.Checked.IDs
	sum.Given += int64(len(ids))
	sum.Live += at.Live
	sum.Completed += at.Completed
	sum.Cancelled += at.Cancelled
	sum.Dead += at.Dead
	gone := make(map[int64]bool, len(discarded))
	for _, id := range discarded {
		gone[id] = true
	}
	for _, id := range absent {
		r.absent(id, gone[id], id >= young)
	}
	return nil
}

// absent reports an id that is not on record.
func (r *run) absent(id int64, discarded, young bool) {
	sum := &r.report.Checked.IDs
	switch {
	case discarded:
		sum.NotOnRecord++
		r.report.add(about(NotOnRecord, Lane{}, []int64{id},
			"job %d is not on record any more: its dead letter was discarded or purged", id))
	case young:
		sum.Missing++
		r.report.add(about(Missing, Lane{}, []int64{id},
			"job %d is not on record, although history is kept %s: its transaction did not commit, or its row was deleted", id, r.kept()))
	default:
		sum.NotOnRecord++
		r.report.add(about(NotOnRecord, Lane{}, []int64{id},
			"job %d is not on record; history is kept %s, and it may be older", id, r.kept()))
	}
}

// kept says how long history is kept.
func (r *run) kept() string { return fmt.Sprintf("%.4g days", r.report.RetentionDays) }
