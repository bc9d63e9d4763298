package verify

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// historySQL is every claim on record, lane by lane in the order in which they
// were made, and then the jobs that stand in the lane without having been
// claimed, in their order (one that was replayed has its old fence still, which
// says nothing about its place). An attempt of a job that was not its last, or did not
// complete it, has a row of its own (past); the last one is in the row of its
// job. A job without a key is its own lane, of interest if it ran twice.
//
// ended_at is when the attempt was over: finished, reported, or out of lease;
// null where that is not known. The worker of a row tells whether its claim
// still stood when the job left, or a past attempt has the rest of the story.
//
// Lanes are told apart by a hash of 64 bits, several times as fast to sort by as
// their names. Should two ever share one, their rows would mix, and go without
// comparison where they do.
//
// Commit times are asked for below the sort, where the rows still come about
// in the order of their transactions: the server caches them by the page.
const historySQL = `
with owner as (
  select f.id, f.queue, f.tenant, f.ordering_key from @schema@.finished_job f
  union all
  select d.id, d.queue, d.tenant, d.ordering_key from @schema@.dead_job d where not d.blocking
  union all
  select j.id, j.queue, j.tenant, j.ordering_key from @schema@.job j
)
select c.id, c.past, c.queue, c.tenant, coalesce(c.ordering_key, ''), c.fence, c.claimed_at, c.ended_at,
       c.lane_turn, c.run_at, c.created_at, c.xid, c.committed_at
  from (
  select a.job_id as id, true as past, o.queue, o.tenant, o.ordering_key, a.fence, a.claimed_at, a.ended_at, 0::bigint as lane_turn,
         null::timestamptz as run_at, null::timestamptz as created_at, 0::bigint as xid, null::timestamptz as committed_at
    from @schema@.attempt a join owner o on o.id = a.job_id
  union all
  select f.id, false, f.queue, f.tenant, f.ordering_key, f.fence, f.claimed_at, case when f.worker <> @nobody@ then f.finished_at end,
         f.lane_turn, f.run_at, f.created_at, f.enqueued_xid::text::bigint, @commit_time(f)@
    from @schema@.finished_job f
   where f.claimed_at > '-infinity' and f.ordering_key is not null
  union all
  select f.id, false, f.queue, f.tenant, null, f.fence, f.claimed_at, case when f.worker <> @nobody@ then f.finished_at end,
         f.lane_turn, f.run_at, f.created_at, 0, null
    from @schema@.finished_job f
   where f.claimed_at > '-infinity' and f.ordering_key is null and f.id in (select a.job_id from @schema@.attempt a)
  union all
  select d.id, false, d.queue, d.tenant, d.ordering_key, d.fence, d.claimed_at, case when d.worker <> @nobody@ then d.died_at end,
         d.lane_turn, d.run_at, d.created_at, d.enqueued_xid::text::bigint, @commit_time(d)@
    from @schema@.dead_job d
   where d.claimed_at > '-infinity'
  union all
  select j.id, false, j.queue, j.tenant, j.ordering_key, case when j.stage in ('r', 'b') and j.claimed_at > '-infinity' then j.fence else 0 end,
         case when j.stage in ('r', 'b') then nullif(j.claimed_at, '-infinity') end,
         case when j.worker <> @nobody@ then coalesce(j.ended_at, j.lease_until) end,
         j.lane_turn, nullif(j.run_at, 'infinity'), j.created_at, j.enqueued_xid::text::bigint, @commit_time(j)@
    from @schema@.job j
   where j.stage in ('r', 'b', 'w') and (j.ordering_key is not null or j.claimed_at > '-infinity')
) c
 order by hashtextextended(coalesce(c.ordering_key, ''), hashtextextended(c.tenant, hashtextextended(c.queue,
            case when c.ordering_key is null then c.id else 0 end))),
          c.claimed_at nulls last, c.fence, c.lane_turn, c.id`

// entry is a row of historySQL.
type entry struct {
	id        int64
	past      bool
	lane      Lane
	fence     int64
	claimed   pgtype.Timestamptz // not valid: not claimed
	ended     pgtype.Timestamptz // not valid: not known
	turn      int64              // place in the lane; 0: it has none
	runAt     pgtype.Timestamptz // not valid: not known
	created   pgtype.Timestamptz
	xid       int64              // the transaction that enqueued it
	committed pgtype.Timestamptz // when that committed; not valid: not known
}

// history reads the lanes and judges them.
func (r *run) history(ctx context.Context) error {
	checked := &r.report.Checked
	r.begin(checked.Finished + checked.Dead + checked.Live)
	statement := strings.NewReplacer(
		"@commit_time(f)@", r.facts.xids.commitTime("f.enqueued_xid"),
		"@commit_time(d)@", r.facts.xids.commitTime("d.enqueued_xid"),
		"@commit_time(j)@", r.facts.xids.commitTime("j.enqueued_xid"),
	).Replace(historySQL)
	var e entry
	into := []any{
		&e.id, &e.past, &e.lane.Queue, &e.lane.Tenant, &e.lane.OrderingKey, &e.fence, &e.claimed, &e.ended,
		&e.turn, &e.runAt, &e.created, &e.xid, &e.committed,
	}
	w := walk{report: &r.report, order: order{keptFrom: r.facts.keptFrom}}
	return r.snapshot(ctx, func(tx pgx.Tx) error {
		return r.each(ctx, tx, statement, nil, into, func() error {
			r.read()
			if e.created.Time.Before(r.facts.home) {
				e.committed.Valid = false
			}
			w.visit(e)
			return nil
		})
	})
}
