package listener_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/listener"
)

// patience bounds every wait for an event; no test gets near it.
const patience = 30 * time.Second

// ear is a running Listener whose callbacks can be awaited.
type ear struct {
	t        *testing.T
	l        *listener.Listener
	cfg      listener.Config
	admin    *pgx.Conn
	signals  chan listener.Signal
	catchUps chan struct{}
	states   chan listener.State
	attempts chan struct{} // one for each call of Connect
	log      *logBuffer
	stop     func() error
}

// listen runs a Listener against the server until the test ends. Its times are
// short; change may set others, and everything else.
func listen(t *testing.T, server *postgres.Server, change func(*listener.Config)) *ear {
	t.Helper()
	e := &ear{
		t:        t,
		admin:    connect(t, server.URL("postgres")),
		signals:  make(chan listener.Signal, 1000),
		catchUps: make(chan struct{}, 1000),
		states:   make(chan listener.State, 1000),
		attempts: make(chan struct{}, 10000),
		log:      &logBuffer{},
	}
	e.cfg = listener.Config{
		Connect:       dialer(server.URL("postgres")),
		Channel:       "ear " + t.Name(),
		OnSignal:      func(s listener.Signal) { e.signals <- s },
		OnCatchUp:     func() { e.catchUps <- struct{}{} },
		OnState:       func(s listener.State) { e.states <- s },
		ProbeInterval: time.Hour,
		ProbeTimeout:  10 * time.Second,
		MaxBackoff:    50 * time.Millisecond,
		Logger:        slog.New(slog.NewTextHandler(e.log, nil)),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.log.text.String())
		}
	})
	if change != nil {
		change(&e.cfg)
	}
	connectFresh := e.cfg.Connect
	e.cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		e.attempts <- struct{}{}
		return connectFresh(ctx)
	}
	var err error
	if e.l, err = listener.New(e.cfg); err != nil {
		t.Fatal(err)
	}
	e.run()
	return e
}

// run runs the listener; e.stop, at the latest called when the test ends, ends
// it and returns what Run returned.
func (e *ear) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.l.Run(ctx) }()
	e.stop = sync.OnceValue(func() error {
		cancel()
		return await(e.t, "the end of Run", done)
	})
	e.t.Cleanup(func() { _ = e.stop() })
}

// becomes waits until the listener reaches mode, and returns that state.
func (e *ear) becomes(mode listener.Mode) listener.State {
	e.t.Helper()
	for {
		if s := await(e.t, "mode "+mode.String(), e.states); s.Mode == mode {
			return s
		}
	}
}

// notify sends a payload from elsewhere.
func (e *ear) notify(payload string) {
	e.t.Helper()
	if err := listener.Notify(e.t.Context(), e.admin, e.cfg.Channel, payload); err != nil {
		e.t.Fatal(err)
	}
}

// hears notifies, and waits until that very signal arrives.
func (e *ear) hears(payload string) {
	e.t.Helper()
	want, err := listener.ParseSignal(payload)
	if err != nil {
		e.t.Fatal(err)
	}
	e.notify(payload)
	if got := await(e.t, "signal "+payload, e.signals); got.Class != want.Class || got.Turn != want.Turn {
		e.t.Fatalf("heard %+v, want %+v", got, want)
	}
}

// terminate ends the listener's backend.
func (e *ear) terminate() {
	e.t.Helper()
	pid := e.l.State().BackendPID
	if _, err := e.admin.Exec(e.t.Context(), "select pg_terminate_backend($1)", pid); err != nil {
		e.t.Fatal(err)
	}
}

// moreAttempts waits for n further attempts to connect.
func (e *ear) moreAttempts(n int) {
	e.t.Helper()
	for len(e.attempts) > 0 {
		<-e.attempts
	}
	for range n {
		await(e.t, "an attempt to connect", e.attempts)
	}
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func dialer(url string) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) }
}

// direct returns a Probe that goes over a pool to the server.
func direct(t *testing.T, server *postgres.Server, channel string) func(context.Context, string) error {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return func(ctx context.Context, payload string) error {
		return listener.Notify(ctx, pool, channel, payload)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// logBuffer collects log lines from any goroutine.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

// count says how many lines contain text.
func (b *logBuffer) count(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
