package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	host = "127.0.0.1"

	// superuser is the role that initdb creates and URL connects as.
	superuser = "postgres"

	// startAttempts bounds the tries to start a server whose process ended
	// before it was ready, as it does when its port was taken in between.
	startAttempts = 5
)

// Server is a private PostgreSQL server. Its methods may be called from several
// goroutines; those that start or end it take turns.
type Server struct {
	config    Config
	owner     *owner
	temporary *temporary // nil for a folder that Config names

	mu      sync.Mutex
	port    int
	process *process // nil while the server is down
}

// Start creates a server and returns once it accepts connections. The context
// bounds the start alone, not the server's life. A failed start leaves neither
// a process nor a temporary folder behind.
func Start(ctx context.Context, config Config) (*Server, error) {
	owner, err := serverOwner()
	if err != nil {
		return nil, err
	}
	server := &Server{owner: owner}
	if server.config, err = config.withDefaults(); err != nil {
		return nil, err
	}
	if err := server.create(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

func (s *Server) create(ctx context.Context) error {
	if err := s.chooseDir(); err != nil {
		return err
	}
	if err := s.owner.prepare(s.config.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.config.Dir, "PG_VERSION")); err != nil {
		if err := s.initialize(ctx); err != nil {
			return err
		}
	}
	return s.start(ctx, freePort)
}

func (s *Server) chooseDir() (err error) {
	if s.config.Dir != "" {
		s.config.Dir, err = filepath.Abs(s.config.Dir)
		return err
	}
	if s.temporary, err = newTemporary(s.owner, s.config.bases()); err != nil {
		return err
	}
	s.config.Dir = filepath.Join(s.temporary.dir, "data")
	return nil
}

// StartAgain starts a server that was stopped or has crashed, with the same
// folder and port, and returns once it accepts connections. It does nothing to
// a server that runs.
func (s *Server) StartAgain(ctx context.Context) error {
	return s.start(ctx, func() (int, error) { return s.port, nil })
}

// start tries until a process stays up; nextPort says which port each try uses.
func (s *Server) start(ctx context.Context, nextPort func() (int, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process.running() {
		return nil
	}
	var err error
	for attempt := range startAttempts {
		if err = pause(ctx, time.Duration(attempt)*50*time.Millisecond); err != nil {
			return err
		}
		if s.port, err = nextPort(); err != nil {
			return err
		}
		if err = s.launch(ctx); err == nil || !errors.Is(err, errEndedEarly) {
			return err
		}
	}
	return err
}

// URL is the connection string for a database of this server, as its superuser.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Host:     net.JoinHostPort(host, strconv.Itoa(s.Port())),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Host is the address that the server listens on, 127.0.0.1.
func (s *Server) Host() string { return host }

// Port is the TCP port that the server listens on. It stays the same over
// StartAgain.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// Dir is the folder with the server's data, its unix socket and its log
// (server.log). A folder with a path too long for a socket has none.
func (s *Server) Dir() string { return s.config.Dir }

// freePort returns a port that nobody listens on, below the range from which
// outgoing connections get theirs: one of those could sit on it at a restart.
func freePort() (int, error) {
	const lowest, highest = 15000, 32000
	for range 100 {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free TCP port found on %s between %d and %d", host, lowest, highest)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
