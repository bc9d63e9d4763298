package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// DispatcherInfo is a dispatcher that is known to the database.
type DispatcherInfo struct {
	ID        WorkerID
	Name      string
	Queues    []string
	Kinds     []string
	Lease     time.Duration
	StartedAt time.Time
	SeenAt    time.Time // its last heartbeat
	Alive     bool      // that was less than three leases ago
}

const dispatchersSQL = `select id, name, queues, kinds, (extract(epoch from lease) * 1000000000)::bigint as lease, started_at, seen_at, alive
	from @schema@.dispatchers order by started_at desc, id limit 1000`

// Dispatchers are those that are registered, the youngest first, up to 1,000.
// Some may be gone: see Alive.
func (s *Store) Dispatchers(ctx context.Context) ([]DispatcherInfo, error) {
	return collect(ctx, s, dispatchersSQL, pgx.RowToStructByPos[DispatcherInfo])
}
