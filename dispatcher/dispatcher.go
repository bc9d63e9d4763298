package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Dispatcher claims jobs, runs their handlers and records what came of them.
type Dispatcher struct {
	cfg    Config
	pool   *pgxpool.Config
	listen *pgx.ConnConfig // nil: as the pool

	mu       sync.Mutex
	handlers map[string]handler
	configs  map[string]HandlerConfig
	withheld map[queueKind]bool

	running atomic.Bool
	current atomic.Pointer[shift] // the last Run's

	callTimeout time.Duration // callTimeout, but for tests
}

// New returns a Dispatcher that does nothing until Run. Of pool it takes the
// configuration alone: however busy the pool is, it has connections of its own
// (Config.MaxConns). The error names the field of cfg at fault.
func New(pool *pgxpool.Pool, cfg Config) (*Dispatcher, error) {
	if pool == nil {
		return nil, errors.New("dispatcher: no pool")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg:         cfg.withDefaults(),
		pool:        pool.Config(),
		handlers:    make(map[string]handler),
		configs:     make(map[string]HandlerConfig),
		withheld:    make(map[queueKind]bool),
		callTimeout: callTimeout,
	}
	if cfg.ListenURL != "" {
		listen, err := pgxpool.ParseConfig(cfg.ListenURL) // which leaves a pool's settings out
		if err != nil {
			return nil, fmt.Errorf("dispatcher: ListenURL: %w", err)
		}
		d.listen = listen.ConnConfig
	}
	return d, nil
}

// Run works until ctx ends, through whatever happens to the database, and then
// winds down: it claims nothing more at once, lets handlers go on for the
// ShutdownGrace, then ends their contexts, gives back what still runs after
// the ReturnGrace, records all outcomes, and returns nil. Of what it started,
// only handlers that ignore their context can be left.
//
// It returns an error if there is nothing to run, or if the server refuses the
// first registration: no such schema, no rights, wrong password.
func (d *Dispatcher) Run(ctx context.Context) error {
	return d.run(ctx, func(ctx context.Context, _ *shift) { <-ctx.Done() })
}

// RunUntilIdle runs until nothing is ready, running, or due to be finished, and
// then winds down as Run does: for tests, and to drain a queue. Jobs that are
// to run later (scheduled, retrying, snoozed) do not keep it from returning,
// nor do jobs of other kinds and queues. If ctx ends first, it winds down all
// the same, and returns the context's error.
func (d *Dispatcher) RunUntilIdle(ctx context.Context) error {
	idle := false
	err := d.run(ctx, func(ctx context.Context, s *shift) { idle = s.awaitIdle(ctx) })
	if err == nil && !idle {
		return context.Cause(ctx)
	}
	return err
}

// run has a shift work until the function returns.
func (d *Dispatcher) run(ctx context.Context, until func(context.Context, *shift)) error {
	if !d.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer d.running.Store(false)
	handlers, err := d.configured()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := newShift(ctx, d, handlers)
	defer s.conns.close()
	if begun, err := s.begin(ctx); err != nil || !begun {
		return err
	}
	d.current.Store(s)
	s.start()
	until(ctx, s)
	end()
	s.windDown()
	return nil
}
