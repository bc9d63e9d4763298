package listener

import (
	"context"
	"crypto/rand"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// session is one connection from the moment it is open to its end. Its watch
// goroutine probes it; everything else happens on the connection's goroutine.
type session struct {
	l     *Listener
	conn  *pgx.Conn
	sock  net.Conn
	nonce string
	stop  context.CancelFunc

	mu         sync.Mutex
	lastHeard  time.Time
	verifiedAt time.Time     // zero until a probe of ours came back
	awaited    chan struct{} // closed by the answer; nil when no probe is out
	fault      error         // why keepProbing gave the connection up
}

func newSession(l *Listener, conn *pgx.Conn) *session {
	s := &session{
		l: l, conn: conn, sock: conn.PgConn().Conn(),
		nonce: rand.Text(), stop: func() {},
	}
	// Until LISTEN stands nobody watches, so the socket itself must give up.
	// An error here shows again at the next read.
	_ = s.sock.SetDeadline(time.Now().Add(l.cfg.ProbeTimeout))
	return s
}

// listening starts to watch: LISTEN stands.
func (s *session) listening(ctx context.Context) {
	_ = s.sock.SetDeadline(time.Time{})
	ctx, s.stop = context.WithCancel(ctx)
	s.l.cleanups.Go(func() {
		if err := s.keepProbing(ctx); err != nil {
			s.giveUp(err)
		}
	})
}

// heard takes note of a notification, and reports whether it verified the
// session. The first answer must be our own probe: a pooler can hand us a
// notification that was left over for somebody else. Later, whatever arrives
// shows that this connection delivers.
func (s *session) heard(signal Signal) (verified bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastHeard = time.Now()
	own := signal.Class == Probe && signal.Nonce == s.nonce
	first := s.verifiedAt.IsZero()
	if s.awaited == nil || first && !own {
		return false
	}
	close(s.awaited)
	s.awaited = nil
	if first {
		s.verifiedAt = s.lastHeard
	}
	return first
}

// giveUp makes the read that waits for notifications fail at once. A deadline
// in the past does what closing the socket here would do, but leaves the
// closing to the connection's goroutine: pgx takes a socket closed under it for
// a lost server, and tries for 15 s to send it a cancel request.
func (s *session) giveUp(fault error) {
	s.mu.Lock()
	s.fault = fault
	s.mu.Unlock()
	_ = s.sock.SetDeadline(time.Unix(1, 0))
}

// end stops the watching, without waiting for a probe on its way. It returns how
// long the session was verified, 0 if it never was, and the reason for its end:
// what keepProbing found, or else err.
func (s *session) end(err error) (verified time.Duration, reason error) {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.verifiedAt.IsZero() {
		verified = max(time.Since(s.verifiedAt), 1)
	}
	if s.fault != nil {
		return verified, s.fault
	}
	return verified, err
}
