package store

import "context"

// Kept is what one go of Upkeep did.
type Kept struct {
	PartitionsMade    int
	PartitionsDropped int
	AttemptsPurged    int
	DispatchersPurged int
	KeysPurged        int // idempotency keys
	DeadPurged        int // dead letters past their queue's DeadRetention
	// Skipped says another upkeep is at it, and nothing was done.
	Skipped bool
	// More says there is more to purge: call again.
	More bool
}

// Upkeep makes history partitions three days ahead, drops those past their
// retention, and purges old attempts and idempotency keys, history that no
// partition was made for, dead letters past their queue's DeadRetention, and
// dispatchers not heard of for a day: at most 5,000 rows of each a call.
func (s *Store) Upkeep(ctx context.Context) (Kept, error) {
	var k Kept
	err := s.row(ctx, `select partitions_made, partitions_dropped, attempts_purged, dispatchers_purged, keys_purged, dead_purged, skipped, more
		from @schema@.upkeep()`, nil, []any{
		&k.PartitionsMade, &k.PartitionsDropped, &k.AttemptsPurged, &k.DispatchersPurged, &k.KeysPurged, &k.DeadPurged, &k.Skipped, &k.More,
	})
	return k, err
}
