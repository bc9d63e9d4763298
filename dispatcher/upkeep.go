package dispatcher

import (
	"context"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	upkeepEvery = 10 * time.Minute
	upkeepSoon  = time.Second // when there is more, or it failed
)

// upkeep keeps the history's partitions and bounds. It is all the same which
// dispatcher does it, and when.
func (s *shift) upkeep(ctx context.Context) {
	retry := newBackoff(upkeepSoon, upkeepEvery)
	for wait := time.Duration(0); sleep(ctx, wait) == nil; {
		var kept store.Kept
		err := s.control(LoopUpkeep, func(ctx context.Context, db *store.Store) (err error) {
			kept, err = db.Upkeep(ctx)
			return err
		})
		switch {
		case err != nil:
			s.trouble(ctx, "upkeep", err)
			wait = retry.NextBackOff()
			continue
		case kept.More:
			wait = upkeepSoon
		default:
			wait = jittered(upkeepEvery)
		}
		retry.Reset()
	}
}
