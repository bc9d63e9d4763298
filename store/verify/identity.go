package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// identitySQL is every id on record and where it is. The dead head of a blocked
// lane is rightly in two places, and stands here for one.
const identitySQL = `
select i.id, i.place, i.queue, i.tenant, i.ordering_key from (
  select f.id, 'finished' as place, f.queue, f.tenant, coalesce(f.ordering_key, '') as ordering_key from @schema@.finished_job f
  union all
  select d.id, 'dead', d.queue, d.tenant, coalesce(d.ordering_key, '') from @schema@.dead_job d
   where not (d.blocking and exists (select from @schema@.job j where j.id = d.id and j.hold = 'x'))
  union all
  select j.id, 'live', j.queue, j.tenant, coalesce(j.ordering_key, '') from @schema@.job j) i
 order by i.id, i.place`

// identity looks for ids that are in two places.
func (r *run) identity(ctx context.Context) error {
	r.begin(0)
	var (
		id, last         int64
		place, lastPlace string
		lane             Lane
	)
	into := []any{&id, &place, &lane.Queue, &lane.Tenant, &lane.OrderingKey}
	return r.snapshot(ctx, func(tx pgx.Tx) error {
		return r.each(ctx, tx, identitySQL, nil, into, func() error {
			r.read()
			r.count(place)
			if id == last && lastPlace != "" {
				r.report.add(about(Twice, lane, []int64{id}, "job %d is on record twice: %s", id, places(lastPlace, place)))
			}
			last, lastPlace = id, place
			return nil
		})
	})
}

func (r *run) count(place string) {
	switch place {
	case "finished":
		r.report.Checked.Finished++
	case "dead":
		r.report.Checked.Dead++
	default:
		r.report.Checked.Live++
	}
}

func places(a, b string) string {
	if a == b {
		return "both times as " + a
	}
	return fmt.Sprintf("as %s and as %s", a, b)
}
