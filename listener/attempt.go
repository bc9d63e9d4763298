package listener

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connect begins an attempt: it waits as pace says, then opens a connection.
// pgxlisten calls it, sends LISTEN, calls the handler, and calls failed when
// the attempt is over, whatever its end.
func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	if err := l.pace.wait(ctx); err != nil {
		return nil, err
	}
	if l.attempts++; l.attempts > 1 {
		l.update(func(s *State) { s.Reconnects++ })
	}
	dialing, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout)
	defer cancel()
	conn, err := l.cfg.Connect(dialing)
	if err != nil {
		return nil, err
	}
	l.session = newSession(l, conn)
	return conn, nil
}

// handler is what pgxlisten calls for our channel.
type handler struct{ *Listener }

// HandleBacklog is called when LISTEN stands, before the first wait.
func (h handler) HandleBacklog(ctx context.Context, _ string, conn *pgx.Conn) error {
	h.update(func(s *State) {
		s.CatchUps++
		s.BackendPID = conn.PgConn().PID()
	})
	h.session.listening(ctx)
	h.cfg.OnCatchUp()
	return nil
}

// HandleNotification is called for each notification, in order.
func (h handler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	signal, err := ParseSignal(n.Payload)
	if h.session.heard(signal) {
		h.become(Connected, slog.LevelInfo, "listener connected", nil)
	}
	if signal.Class == Probe {
		return nil
	}
	h.update(func(s *State) {
		s.Signals++
		if err != nil {
			s.Unknown++
		}
	})
	h.cfg.OnSignal(signal)
	return nil
}

// failed is told of errors. Our handlers return none, so while the connection is
// open, it is about a notification on a channel that is not ours, which Connect
// or a pooler may have left listened to. That concerns nobody.
func (l *Listener) failed(ctx context.Context, err error) {
	if l.session == nil || l.session.conn.IsClosed() {
		l.ended(ctx, err)
	}
}

// ended draws the conclusions from the end of an attempt, and paces the next.
func (l *Listener) ended(ctx context.Context, err error) {
	var verified time.Duration
	if s := l.session; s != nil {
		verified, err = s.end(err)
		l.closed(s.conn)
	}
	l.update(func(s *State) { s.BackendPID = 0 })
	switch {
	case ctx.Err() != nil:
		l.become(Connecting, slog.LevelInfo, "listener stopped", nil)
	case verified > 0:
		l.pace.lost(verified)
		l.concludeLoss(err)
	default:
		l.pace.failed()
		l.concludeFailure(err)
	}
	l.session = nil
}

// closed lets Run wait for what pgx still does, in a goroutine of its own, to
// close a connection that broke.
func (l *Listener) closed(conn *pgx.Conn) {
	l.cleanups.Go(func() { <-conn.PgConn().CleanupDone() })
}

// concludeLoss names the mode after a verified connection has ended.
func (l *Listener) concludeLoss(err error) {
	if l.noteError(err) {
		l.become(Stale, slog.LevelWarn, "listener stale: its connection fell silent; reconnecting", err)
	} else {
		l.become(Connecting, slog.LevelWarn, "listener lost its connection; reconnecting", err)
	}
}

// concludeFailure names the mode after an attempt that was never verified. One
// that says nothing about LISTEN leaves the mode as it is.
func (l *Listener) concludeFailure(err error) {
	switch {
	case l.noteError(err):
		l.become(PollOnly, slog.LevelWarn,
			"listener hears nothing: LISTEN was accepted, but our own notification did not arrive; "+
				"is there a transaction-mode pooler? the listener needs a direct address; relying on polling", err)
	case l.session != nil && refused(err):
		l.become(PollOnly, slog.LevelWarn, "listener was refused LISTEN; relying on polling", err)
	default:
		l.log(slog.LevelWarn, "listener could not connect", err)
	}
}

// noteError records err, and reports whether it is an unanswered probe.
func (l *Listener) noteError(err error) (unanswered bool) {
	unanswered = errors.Is(err, errUnanswered)
	l.update(func(s *State) {
		s.LastError = err.Error()
		if unanswered {
			s.Unanswered++
		}
	})
	return unanswered
}

// refused reports whether the server answered a statement with an error and
// stayed. LISTEN is the only statement on a session, and FATAL ends it.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized != "FATAL"
}
