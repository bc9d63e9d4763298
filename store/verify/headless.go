package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// headlessSQL is the lanes without a head in which jobs wait, or stand that no
// trigger placed.
const headlessSQL = `
select j.queue, j.tenant, j.ordering_key, min(j.id), count(*)
  from @schema@.job j
 where j.stage in ('w', 'e') and not exists (
   select from @schema@.job h where h.queue = j.queue and h.tenant = j.tenant and h.ordering_key = j.ordering_key and h.stage in ('r', 'b'))
 group by 1, 2, 3 order by 1, 2, 3`

func (r *run) headless(ctx context.Context, tx pgx.Tx, found *suspects) error {
	var lane Lane
	var id, jobs int64
	return r.each(ctx, tx, headlessSQL, nil, []any{&lane.Queue, &lane.Tenant, &lane.OrderingKey, &id, &jobs}, func() error {
		found.add(fmt.Sprint(lane, id), Finding{
			Class: Headless, Lane: lane, IDs: []int64{id}, Jobs: jobs,
			Text: fmt.Sprintf("%s in a lane without a head (job %d and later ones): nothing runs there before a sweep", wait(jobs), id),
		})
		return nil
	})
}

func wait(jobs int64) string {
	if jobs == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", jobs)
}
