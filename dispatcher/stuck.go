package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// endStuck ends a session that holds a run lock more than a lease after its
// own lease ended: of a process that is frozen, or gone without a word. Where
// our role may not, the administrator is told how to, once.
func (s *shift) endStuck(k store.Stuck) {
	if _, known := s.holders.LoadOrStore(k, true); known {
		return
	}
	if k.BackendStart.IsZero() { // this role may not even see it
		s.tellStuck(k, adviceOn(k), nil)
		return
	}
	s.loops.Go(func() {
		ended := false
		err := s.control(LoopClaim, func(ctx context.Context, db *store.Store) (err error) {
			ended, err = db.EndStuck(ctx, k)
			return err
		})
		switch {
		case coded(err, codeNoPrivilege):
			s.tellStuck(k, adviceOn(k), err)
			return // and never again of this one
		case err != nil:
			s.tellStuck(k, "could not be ended", err)
		case ended:
			s.tellStuck(k, fmt.Sprintf("ended backend %d of role %q", k.PID, k.Role), nil)
		}
		s.holders.Delete(k)
	})
}

func (s *shift) tellStuck(k store.Stuck, reason string, err error) {
	s.tell(Event{Type: Holder, JobID: k.JobID, Fence: k.Fence, Reason: reason, Err: err})
}

// adviceOn tells an administrator what to do.
func adviceOn(k store.Stuck) string {
	since := ""
	if !k.BackendStart.IsZero() {
		since = " -- started " + k.BackendStart.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("may not be ended by this role; as role %q, or as a superuser: select pg_terminate_backend(%d);%s", k.Role, k.PID, since)
}
