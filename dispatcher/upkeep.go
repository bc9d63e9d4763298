package dispatcher

import (
	"context"
	"fmt"
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
		err := s.control(func(ctx context.Context, db *store.Store) (err error) {
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

// endStuck ends a session that holds a run lock more than a lease after its
// own lease ended: a process frozen, or gone without a word. Where our role may
// not, the administrator is told how to, once.
func (s *shift) endStuck(k store.Stuck) {
	if _, busy := s.holders.LoadOrStore(k, true); busy {
		return
	}
	s.loops.Go(func() {
		var ended bool
		err := s.control(func(ctx context.Context, db *store.Store) (err error) {
			ended, err = db.EndStuck(ctx, k)
			return err
		})
		told := Event{Type: Holder, JobID: k.JobID, Fence: k.Fence, Err: err}
		switch {
		case coded(err, codeNoPrivilege):
			told.Reason = fmt.Sprintf("may not be ended by this role: have it done as %q or a superuser: "+
				"select pg_terminate_backend(%d); -- backend_start %s", k.Role, k.PID, k.BackendStart.Format(time.RFC3339Nano))
			s.tell(told)
			return // and never again of this one
		case err != nil:
			told.Reason = "could not be ended"
			s.tell(told)
		case ended:
			told.Reason = fmt.Sprintf("ended backend %d of role %q", k.PID, k.Role)
			s.tell(told)
		}
		s.holders.Delete(k)
	})
}
