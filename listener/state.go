package listener

import (
	"context"
	"log/slog"
	"time"
)

// Mode says how far signals can be relied on.
type Mode int

// The modes. Only Connected promises that signals arrive.
const (
	// Connecting: there is no verified connection, and nothing worse is known.
	// Also before and after Run.
	Connecting Mode = iota
	// Connected: LISTEN stands, and a notification has been seen to arrive.
	Connected
	// Stale: a verified connection left a probe unanswered. It was closed, and
	// no other has been verified since.
	Stale
	// PollOnly: the server answers, but LISTEN was refused or nothing was
	// delivered, as behind a transaction-mode pooler. Attempts go on.
	PollOnly
)

// String returns the mode as logs, health checks and metrics spell it.
func (m Mode) String() string {
	switch m {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Stale:
		return "stale"
	case PollOnly:
		return "poll-only"
	}
	return "unknown"
}

// State is a snapshot of a Listener. Counters count from New on.
type State struct {
	Mode  Mode
	Since time.Time // when Mode began

	// BackendPID is the server process of the connection on which LISTEN
	// stands, verified or not; 0 if there is none. Behind a pooler it is
	// whatever the pooler says.
	BackendPID uint32
	// LastError is why the last attempt or connection failed; "" if none has.
	LastError string

	Signals    uint64 // signals received, without probes
	Unknown    uint64 // those of them that could not be understood
	CatchUps   uint64 // times that LISTEN stood on a new connection
	Probes     uint64 // probes begun
	Unanswered uint64 // probes that did not come back in time
	Reconnects uint64 // attempts to connect after the first, good or bad
}

// State returns the current state. It is cheap, and safe at any time.
func (l *Listener) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// update changes the state under its lock.
func (l *Listener) update(change func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.state)
}

// become moves to mode, and tells the log and OnState if that is a change.
// Only the goroutine of the connection calls it, so changes are told in order.
func (l *Listener) become(mode Mode, level slog.Level, message string, cause error) {
	changed := false
	l.update(func(s *State) {
		changed = s.Mode != mode
		if changed {
			s.Mode, s.Since = mode, time.Now()
		}
	})
	if !changed {
		level = slog.LevelDebug // said before
	}
	l.log(level, message, cause)
	if changed {
		l.cfg.OnState(l.State())
	}
}

// log writes one line. Only the goroutine of the connection calls it.
func (l *Listener) log(level slog.Level, message string, cause error) {
	attrs := []any{"channel", l.cfg.Channel}
	if l.session != nil {
		attrs = append(attrs, "backend_pid", l.session.conn.PgConn().PID())
	}
	if cause != nil {
		attrs = append(attrs, "error", cause.Error())
	}
	l.cfg.Logger.Log(context.Background(), level, message, attrs...)
}
