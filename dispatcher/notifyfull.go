package dispatcher

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// clogged looks into a full queue of notifications, after a call met with one:
// it tells who may be to blame, and the look itself has the server drop what
// everybody has read. Nothing else would: that is done by those who notify, and
// they are refused.
func (s *shift) clogged(ctx context.Context, err error) {
	if !store.NotifyQueueFull(err) {
		return
	}
	var queue store.NotifyQueue
	asked := s.conns.control.use(ctx, func(conn *pgx.Conn) (err error) {
		queue, err = s.store(conn).NotifyQueue(ctx)
		return err
	})
	const step = "notify queue"
	if asked == nil && queue.Usage > 0.5 && ctx.Err() == nil {
		s.tell(Event{Type: Trouble, Reason: step, Err: fmt.Errorf("%w; %s", err, blame(queue.Open)), again: s.said.again(step)})
	}
}

// blame names the sessions that the queue may wait for.
func blame(open []store.OpenTransaction) string {
	names := make([]string, 0, len(open))
	for _, o := range open {
		names = append(names, fmt.Sprintf("pid %d (%s, role %q, %q, %v)", o.PID, o.State, o.Role, o.Application, o.Age))
	}
	if len(names) == 0 {
		return "no open transaction can be seen: look for sessions that listen, as a superuser"
	}
	return "the first of these that listens keeps it full: " + strings.Join(names, ", ")
}
