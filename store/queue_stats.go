package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// QueueStat counts the live jobs of one queue, kind and state.
type QueueStat struct {
	Queue, Kind string
	State       State
	Jobs        int64
	Oldest      time.Time // when the oldest of them was enqueued
	Soonest     time.Time // their earliest due time, past or to come; zero: blocked lanes have none
}

const queueStatsSQL = `select queue, kind, state, jobs, oldest, soonest from @schema@.queue_stats order by queue, kind, state`

// QueueStats counts live jobs, sorted by queue, kind and state. It reads the
// whole live table: ask seldom while that is large.
func (s *Store) QueueStats(ctx context.Context) ([]QueueStat, error) {
	return collect(ctx, s, queueStatsSQL, func(row pgx.CollectableRow) (QueueStat, error) {
		var q QueueStat
		var soonest *time.Time
		err := row.Scan(&q.Queue, &q.Kind, &q.State, &q.Jobs, &q.Oldest, &soonest)
		q.Soonest = orZero(soonest)
		return q, err
	})
}
