package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// What waits for a person: that is as it should be, unless the person would
// find nothing to decide about.

const blockedSQL = `
select j.id, j.queue, j.tenant, j.ordering_key, (
         select count(*) from @schema@.job w
          where w.queue = j.queue and w.tenant = j.tenant and w.ordering_key = j.ordering_key and w.stage = 'w')
  from @schema@.job j where j.hold = 'x' and j.ordering_key is not null and not j.settled
 order by j.queue, j.tenant, j.ordering_key`

const pausedSQL = `
select min(j.id), j.queue, j.tenant, coalesce(j.ordering_key, ''), count(*)
  from @schema@.job j where j.hold = 'p' and ` + covered + `
 group by 2, 3, 4 order by 2, 3, 4`

// unmatchedSQL is the heads set aside as dead without a dead letter, and the
// dead letters said to block a lane in which they are not.
const unmatchedSQL = `
select j.id, j.queue, j.tenant, coalesce(j.ordering_key, ''), true
  from @schema@.job j where j.hold = 'x' and not exists (select from @schema@.dead_job d where d.id = j.id and d.blocking)
union all
select d.id, d.queue, d.tenant, coalesce(d.ordering_key, ''), false
  from @schema@.dead_job d where d.blocking and not exists (select from @schema@.job j where j.id = d.id and j.hold = 'x')`

func (r *run) people(ctx context.Context) error {
	r.begin(0)
	return r.snapshot(ctx, func(tx pgx.Tx) error {
		if err := r.waiting(ctx, tx, Blocked, blockedSQL,
			"blocked by its dead head, job %d; %d jobs wait behind it: replay or discard it, or unblock the lane"); err != nil {
			return err
		}
		if err := r.waiting(ctx, tx, Paused, pausedSQL, "set aside by a pause, job %d first, %d in all: they go on with the resume"); err != nil {
			return err
		}
		return r.unmatched(ctx, tx)
	})
}

// waiting reports the lanes that a statement finds.
func (r *run) waiting(ctx context.Context, tx pgx.Tx, class Class, statement, text string) error {
	var lane Lane
	var id, jobs int64
	return r.each(ctx, tx, statement, nil, []any{&id, &lane.Queue, &lane.Tenant, &lane.OrderingKey, &jobs}, func() error {
		r.report.add(Finding{Class: class, Lane: lane, IDs: []int64{id}, Jobs: jobs, Text: fmt.Sprintf(text, id, jobs)})
		return nil
	})
}

func (r *run) unmatched(ctx context.Context, tx pgx.Tx) error {
	var lane Lane
	var id int64
	var live bool
	return r.each(ctx, tx, unmatchedSQL, nil, []any{&id, &lane.Queue, &lane.Tenant, &lane.OrderingKey, &live}, func() error {
		text := "the dead letter of job %d says that it blocks its lane, where it is not"
		if live {
			text = "job %d blocks its lane as dead, and has no dead letter to replay or discard"
		}
		r.report.add(about(DeadLetter, lane, []int64{id}, text, id))
		return nil
	})
}
