package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// covered is SQL for whether a pause covers the parked job j. Pauses of queues
// and kinds park nothing.
const covered = `(
      exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = '' and p.tenant = j.tenant)
   or exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = j.queue and p.tenant = j.tenant)
   or exists (select from @schema@.pause p
               where p.scope = 'key' and p.queue = j.queue and p.tenant = j.tenant and p.ordering_key = j.ordering_key))`

// parkedSQL is the jobs that are parked though no pause covers them, in the
// order in which they are returned: the first five of each queue with how many
// there are, and the next of all to be returned. While that one changes, what
// a large resume has left is on its way, however long it takes.
const parkedSQL = `
with parked as (
  select j.id, j.queue, j.tenant, coalesce(j.ordering_key, '') as ordering_key,
         row_number() over (partition by j.queue order by j.tenant, j.ordering_key, j.id) as nth,
         count(*) over (partition by j.queue) as jobs,
         first_value(j.id) over (order by j.queue, j.tenant, j.ordering_key, j.id) as next
    from @schema@.job j where j.hold = 'p' and not j.settled and not ` + covered + `
)
select p.queue, p.tenant, p.ordering_key, p.id, p.nth, p.jobs, p.next from parked p where p.nth <= 5 order by p.queue, p.nth`

func (r *run) parked(ctx context.Context, tx pgx.Tx, found *suspects) error {
	var f Finding
	var lane Lane
	var id, nth, jobs, next int64
	var key string
	flush := func() {
		if f.IDs != nil {
			found.add(key, f)
		}
	}
	err := r.each(ctx, tx, parkedSQL, nil, []any{&lane.Queue, &lane.Tenant, &lane.OrderingKey, &id, &nth, &jobs, &next}, func() error {
		if nth == 1 {
			flush()
			key = fmt.Sprintf("%q %d", lane.Queue, next)
			f = Finding{
				Class: Parked, Lane: lane, Jobs: jobs,
				Text: several(jobs, "job") + " set aside by a pause that is over, and no dispatcher lets them go on",
			}
		}
		f.IDs = append(f.IDs, id)
		return nil
	})
	flush()
	return err
}
