package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// BlockedLane is a lane that a dead head holds up.
type BlockedLane struct {
	Queue       string    `json:"queue"`
	Tenant      string    `json:"tenant"`
	OrderingKey string    `json:"ordering_key"`
	Head        int64     `json:"head"` // the dead job's id
	Kind        string    `json:"kind"` // the dead job's
	Error       string    `json:"error"`
	DiedAt      time.Time `json:"died_at,omitzero"` // zero: its dead letter was deleted by hand
	Waiting     int64     `json:"waiting"`          // jobs behind it
}

const listBlockedSQL = `select queue, tenant, ordering_key, head, kind, coalesce(error, ''), died_at, waiting
	from @schema@.list_blocked(queue => $1, after => $2, max => $3)`

// ListBlocked is a page of the blocked lanes of a queue, "" for all, by their
// heads: after is the head of the last lane of the page before, or 0. limit is 1
// to 1000.
func (s *Store) ListBlocked(ctx context.Context, queue string, after int64, limit int) ([]BlockedLane, error) {
	if err := checkTexts([]text{{"queue", queue}}...); err != nil {
		return nil, err
	}
	return collect(ctx, s, listBlockedSQL, func(row pgx.CollectableRow) (BlockedLane, error) {
		var l BlockedLane
		var died *time.Time
		err := row.Scan(&l.Queue, &l.Tenant, &l.OrderingKey, &l.Head, &l.Kind, &l.Error, &died, &l.Waiting)
		l.DiedAt = orZero(died)
		return l, err
	}, optional(queue), after, limit)
}
