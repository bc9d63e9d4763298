package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// QueueInfo is a queue: one with jobs, settings or a pause.
type QueueInfo struct {
	Name   string
	OnDead OnDead
	// After the n-th failure: BackoffBase × BackoffFactor^(n-1), at most BackoffCap.
	BackoffBase   time.Duration
	BackoffFactor float64
	BackoffCap    time.Duration
	Paused        bool
	Reason        string          // why it is paused
	Jobs          map[State]int64 // as they were counted at most 5 s ago, or the last time
}

// The defaults are those of the table of queues: a queue has no row until
// somebody sets something.
const queuesSQL = `with counted as (select c.counts from @schema@.count_jobs(max_age => '5 seconds') c),
	jobs as (select j ->> 'queue' as name, jsonb_object_agg(j ->> 'state', j -> 'jobs') as jobs
	           from counted, jsonb_array_elements(coalesce(counts, '[]')) j group by 1),
	paused as (select p.queue as name, p.reason from @schema@.pauses p where p.scope = 'queue'),
	names as (select name from jobs union select name from paused union select name from @schema@.queues)
	select n.name, coalesce(q.on_dead, 'skip'), (extract(epoch from coalesce(q.backoff_base, '5 seconds')) * 1000000000)::bigint,
	       coalesce(q.backoff_factor, 2), (extract(epoch from coalesce(q.backoff_cap, '1 hour')) * 1000000000)::bigint,
	       p.name is not null, coalesce(p.reason, ''), coalesce(j.jobs, '{}')
	  from names n left join @schema@.queues q using (name) left join paused p using (name) left join jobs j using (name)
	 where n.name > $1 order by n.name limit $2`

// Queues lists queues by name, up to limit of those after a name ("": from the
// first). A queue that was never set has the defaults.
func (s *Store) Queues(ctx context.Context, after string, limit int) ([]QueueInfo, error) {
	if err := checkTexts(text{"after", after}); err != nil {
		return nil, err
	}
	return collect(ctx, s, queuesSQL, func(row pgx.CollectableRow) (q QueueInfo, err error) {
		var jobs []byte
		err = row.Scan(&q.Name, &q.OnDead, &q.BackoffBase, &q.BackoffFactor, &q.BackoffCap, &q.Paused, &q.Reason, &jobs)
		if err == nil {
			err = unmarshal(jobs, &q.Jobs)
		}
		return q, err
	}, after, limit)
}
