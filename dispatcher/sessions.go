package dispatcher

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sessions is a bounded set of connections of our own, opened when needed. A
// pool holds the place of a broken connection until its socket is closed, for
// up to 15 s where packets vanish; here the place is free at once, since a
// lease may hang on it. Only pgx's clean-up of the dead socket lives on a while.
type sessions struct {
	connect func(context.Context) (*pgx.Conn, error)
	places  chan struct{} // a token for each connection in use

	mu      sync.Mutex
	idle    []*pgx.Conn // the last one used comes first again
	closing sync.WaitGroup
}

func newSessions(n int, connect func(context.Context) (*pgx.Conn, error)) *sessions {
	return &sessions{connect: connect, places: make(chan struct{}, n)}
}

// use lends fn a connection. If fn's error says that the server can't be worked
// with, this and all idle connections are dropped: they end at the same server.
func (s *sessions) use(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := s.take(ctx)
	if err != nil {
		return err
	}
	err = fn(conn)
	s.put(conn, err)
	return err
}

// take waits for a place, and opens a connection if none is idle.
func (s *sessions) take(ctx context.Context) (*pgx.Conn, error) {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if conn := s.pop(); conn != nil {
		return conn, nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		<-s.places
		return nil, err
	}
	return conn, nil
}

func (s *sessions) pop() *pgx.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		conn := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if !conn.IsClosed() {
			return conn
		}
		s.drop(conn)
	}
	return nil
}

// put takes a connection back. err is what its user met with.
func (s *sessions) put(conn *pgx.Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { <-s.places }()
	switch {
	case unavailable(err):
		s.drop(append(s.idle, conn)...)
		s.idle = nil
	case conn.IsClosed() || conn.PgConn().TxStatus() != 'I':
		s.drop(conn)
	default:
		s.idle = append(s.idle, conn)
	}
}

// abandon frees the place of a connection that a runaway handler still has. The
// socket is closed under it: the server ends the transaction, and the
// handler's next statement fails.
func (s *sessions) abandon(socket net.Conn) {
	_ = socket.Close()
	<-s.places
}

// drop closes connections in the background. The caller holds the lock.
func (s *sessions) drop(conns ...*pgx.Conn) {
	for _, conn := range conns {
		s.closing.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = conn.Close(ctx)
			<-conn.PgConn().CleanupDone()
		})
	}
}

// close ends all connections and waits for pgx's clean-up. None is in use.
func (s *sessions) close() {
	s.mu.Lock()
	s.drop(s.idle...)
	s.idle = nil
	s.mu.Unlock()
	s.closing.Wait()
}
