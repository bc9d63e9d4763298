package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LaneFilter says which lanes to list. A zero field means all.
type LaneFilter struct {
	Queue  string
	Tenant string
	// After lists lanes after this one by queue, tenant and ordering key: the
	// last one of the page before. The zero Lane: from the first.
	After Lane
}

// LaneInfo is a lane with a head.
type LaneInfo struct {
	Lane
	Head      int64 // the job's id
	HeadKind  string
	HeadState State
	HeadSince time.Time // when the head was enqueued
	Age       time.Duration
	Waiting   int64 // jobs behind the head
}

const lanesSQL = `select queue, tenant, ordering_key, head, head_kind, head_state, (extract(epoch from head_created_at) * 1000000)::bigint,
	(extract(epoch from clock_timestamp() - head_created_at) * 1000000)::bigint, waiting
	from @schema@.lanes%s order by queue, tenant, ordering_key limit %d`

// Lanes lists lanes with a head by queue, tenant and ordering key, up to limit. The
// jobs behind each head are counted: that takes longer for deep lanes.
func (s *Store) Lanes(ctx context.Context, f LaneFilter, limit int) ([]LaneInfo, error) {
	texts := []text{{"queue", f.Queue}, {"tenant", f.Tenant}}
	if err := checkTexts(append(texts, text{"after", f.After.Queue + f.After.Tenant + f.After.OrderingKey})...); err != nil {
		return nil, err
	}
	var w where
	w.equal(texts...)
	if f.After != (Lane{}) {
		w.args = append(w.args, f.After.args()...)
		n := len(w.args)
		w.parts = append(w.parts, fmt.Sprintf("(queue, tenant, ordering_key) > ($%d, $%d, $%d)", n-2, n-1, n))
	}
	return collect(ctx, s, fmt.Sprintf(lanesSQL, w.clause(), limit), func(row pgx.CollectableRow) (l LaneInfo, err error) {
		var since *int64
		var age int64
		err = row.Scan(&l.Queue, &l.Tenant, &l.OrderingKey, &l.Head, &l.HeadKind, &l.HeadState, &since, &age, &l.Waiting)
		l.HeadSince, l.Age = fromMicros(since), time.Duration(age)*time.Microsecond
		return l, err
	}, w.planned()...)
}
