package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/listener"
)

// listening is how the shift listens.
func (s *shift) listening(channel string) listener.Config {
	return listener.Config{
		Connect:   s.conns.listen,
		Channel:   channel,
		OnSignal:  s.signalled,
		OnCatchUp: s.catchUp,
		OnState: func(state listener.State) {
			s.tell(Event{Type: Listening, Reason: state.Mode.String()})
		},
		Probe: func(ctx context.Context, payload string) error {
			ctx, cancel := context.WithTimeoutCause(ctx, s.heart.timeout(), errNoAnswer)
			defer cancel()
			err := s.conns.heartbeat.use(ctx, func(conn *pgx.Conn) error {
				return listener.Notify(ctx, conn, channel, payload)
			})
			s.clogged(ctx, err)
			return err
		},
		Logger: s.cfg.Logger,
	}
}

// signalled does what a signal hints at. Anybody may send one, so it is never
// believed, only looked into: even a cancel ends a handler's context only when
// the next heartbeat, which it hastens, confirms it.
func (s *shift) signalled(signal listener.Signal) {
	q := s.byHash[signal.Queue]
	switch signal.Class {
	case listener.Runnable:
		if q != nil {
			q.bell.ring(BySignal)
		}
	case listener.Due:
		if q != nil {
			s.due.signalled(s.clock.localTime(signal.Due))
		}
	case listener.Sweep:
		if q != nil {
			s.sweeper.ask(q.name)
		}
	case listener.Cancel:
		if signal.All || s.leases.any(signal.IDs) {
			s.heart.bell.ring(BySignal)
		}
	case listener.Pause:
		s.ringAll(BySignal)
		s.sweeper.ask(parkedOnly)
	default: // nobody knows what
		s.ringAll(BySignal)
		s.due.bell.ring(BySignal)
	}
}

// catchUp looks for what was committed while nobody listened.
func (s *shift) catchUp() {
	s.ringAll(ByCatchUp)
	s.due.bell.ring(ByCatchUp)
	s.sweeper.askAll()
	s.heart.bell.ring(ByCatchUp)
	s.finisher.hurry()
}

// clock relates the database's clock to the local monotonic one.
type clock struct {
	mu        sync.Mutex
	db, local time.Time // of about one moment; local is never the later one
}

func (c *clock) set(db, local time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db, c.local = db, local
}

// localTime is when the database's clock will show t, or a little before; now, if
// nothing is known of that clock yet.
func (c *clock) localTime(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db.IsZero() {
		return time.Now()
	}
	return c.local.Add(t.Sub(c.db))
}
