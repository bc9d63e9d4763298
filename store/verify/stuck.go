package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// stuckSQL is the jobs that may run, or soon should, and do not, by reason,
// queue and kind; the first five of each with all there are. A lease can't end
// later than a lease from now, give or take what a transactional handler's is
// moved on by, and a clock that was set.
//
// What a worker lost while its queue or kind is paused is claimed anew after the
// resume. Ready jobs are no finding while a dispatcher works on their queue and kind,
// however many they are: that is a backlog.
const stuckSQL = `
with suspect as (
  select j.id, j.queue, j.kind, j.tenant, j.ordering_key,
         case
           when j.settled then case when j.ended_at < c.now - c.overdue then 'settled' end
           when j.stage in ('s', 'b') then case when j.hold = '-' and j.run_at < c.now - c.overdue then 'due' end
           when j.stage <> 'r' then null
           when j.lease_until > c.now + greatest(j.lease, '2 s') + interval '10 s' then 'ahead'
           when j.held_since > '-infinity' and j.held_since < c.now - c.overdue - 2 * j.lease then 'held'
           when j.lease_until > c.now then null
           when j.worker = @nobody@ then 'ready'
           when j.lease_until < c.now - c.overdue and cardinality(@schema@.paused(array[j.id])) = 0 then 'lease'
         end as reason,
         case
           when j.settled then j.ended_at
           when j.worker = @nobody@ then least(j.run_at, c.now)
           when j.held_since > '-infinity' then j.held_since
           else least(j.lease_until, c.now)
         end as since
    from @schema@.job j, (select $1::timestamptz as now, $2::interval as overdue) c
), served as (
  select g.queue, g.kind, exists (
           select from @schema@.dispatcher d
            where d.seen_at > $1::timestamptz - 3 * d.lease and g.queue = any (d.queues) and @schema@.kind_rank(g.kind, d.kinds) >= 0) as served
    from (select distinct s.queue, s.kind from suspect s where s.reason is not null) g
), numbered as (
  select s.*, row_number() over (partition by s.reason, s.queue, s.kind order by s.id) as nth,
         count(*) over (partition by s.reason, s.queue, s.kind) as jobs,
         min(s.since) over (partition by s.reason, s.queue, s.kind) as oldest
    from suspect s where s.reason is not null
)
select n.reason, n.queue, n.kind, v.served, n.id, n.tenant, coalesce(n.ordering_key, ''), n.nth, n.jobs, n.oldest
  from numbered n join served v on v.queue = n.queue and v.kind = n.kind
 where n.nth <= 5 and (n.reason <> 'ready' or not v.served)
 order by n.reason, n.queue, n.kind, n.nth`

// group is the jobs of one reason, queue and kind.
type group struct {
	reason, kind string
	served       bool // a live dispatcher works on them
	lane         Lane // of the first job
	ids          []int64
	jobs         int64
	oldest       time.Time
}

func (r *run) stuck(ctx context.Context, tx pgx.Tx, found *suspects) error {
	var now time.Time
	if err := tx.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	var g, row group
	var id, nth int64
	flush := func() {
		if g.ids != nil {
			found.add(fmt.Sprintf("%s %q %q", g.reason, g.lane.Queue, g.kind), g.finding(r.config.Overdue))
		}
	}
	into := []any{
		&row.reason, &row.lane.Queue, &row.kind, &row.served, &id, &row.lane.Tenant, &row.lane.OrderingKey, &nth, &row.jobs, &row.oldest,
	}
	err := r.each(ctx, tx, stuckSQL, []any{now, r.config.Overdue}, into, func() error {
		if nth == 1 {
			flush()
			g = row
		}
		g.ids = append(g.ids, id)
		return nil
	})
	flush()
	return err
}

func (g group) finding(overdue time.Duration) Finding {
	class, jobs := Unclaimable, fmt.Sprintf("%s of kind %q", several(g.jobs, "job"), g.kind)
	var text string
	switch g.reason {
	case "settled":
		text = "ended (at " + stamp(g.oldest) + " the first), and no dispatcher lets the lane go on"
	case "due":
		text = "fell due (at " + stamp(g.oldest) + " the first), and no dispatcher lets them run"
	case "ahead":
		text = "can't be claimed: leased further ahead than any lease lasts"
	case "held":
		text = "held by the session of a transactional handler that lost its lease at " + stamp(g.oldest) + "; a dispatcher's log has the statement that ends it"
	case "ready":
		text = "can't be claimed: no live dispatcher works on this queue and kind"
	default:
		class = LeasePast
		text = fmt.Sprintf("still claimed by workers whose leases ended more than %v ago (at %s the first); nobody has taken them since", overdue, stamp(g.oldest))
	}
	if !g.served && g.reason != "ready" {
		text += "; no live dispatcher works on this queue and kind"
	}
	return Finding{Class: class, Lane: g.lane, IDs: g.ids, Jobs: g.jobs, Text: jobs + " " + text}
}
