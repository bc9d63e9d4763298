package listener

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgxlisten"
)

// errRunning: Run was called again before it returned.
var errRunning = errors.New("listener: already running")

// Listener listens on one channel while Run runs.
type Listener struct {
	cfg Config

	mu    sync.Mutex
	state State

	running atomic.Bool

	// The rest belongs to the goroutine of the connection, that is Run's.
	pace     *pace
	attempts int
	session  *session // the current connection, nil if there is none

	cleanups sync.WaitGroup // watches, and connections that pgx is closing
}

// New returns a Listener that does nothing until Run. The error names the
// field of cfg at fault.
func New(cfg Config) (*Listener, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	l := &Listener{
		cfg:   cfg,
		pace:  newPace(cfg.MaxBackoff, cfg.HealthyAfter),
		state: State{Mode: Connecting, Since: time.Now()},
	}
	if cfg.Probe == nil {
		l.cfg.Probe = l.probeByConnecting
	}
	return l, nil
}

// Run listens until ctx ends, through whatever happens to the server or the
// network, and then returns nil. It returns an error only if it is already
// running. All goroutines it started have ended by then, which takes long only
// in a network that swallows packets: ProbeTimeout for a probe being sent, 15 s
// for pgx to close a connection that broke.
func (l *Listener) Run(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer l.running.Store(false)
	loop := pgxlisten.Listener{
		Connect:  l.connect,
		LogError: l.failed,
		// Negative: no wait of its own. connect waits instead, by our rule.
		ReconnectDelay: -1,
	}
	loop.Handle(l.cfg.Channel, handler{l})
	err := loop.Listen(ctx)
	l.cleanups.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}
