package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// HandlerFunc runs a job; what it returns is the attempt's outcome (see the
// package comment). It is what Middleware sees of a handler.
type HandlerFunc func(ctx context.Context, job store.Job) error

// Middleware wraps a handler. Around a transactional handler it runs inside
// the transaction, once more for each repetition.
type Middleware func(next HandlerFunc) HandlerFunc

// HandlerConfig is how one kind is handled; see Configure.
type HandlerConfig struct {
	// Timeout is how long the handler may run before its context ends with
	// ErrTimeout and the attempt counts as failed. Zero: as long as it likes;
	// for a transactional handler, which is itself a long transaction, 1 min,
	// from when it has its connection and its lane's run lock.
	Timeout time.Duration

	// DecodeRetry makes a payload that does not decode an ordinary failure, to
	// be tried again: for rolling deploys, where a newer worker may understand
	// it. False: the job is dead at once.
	DecodeRetry bool
}

const defaultTxTimeout = time.Minute

// handler is what is registered for a kind.
type handler struct {
	kind          string
	transactional bool
	fn            HandlerFunc
	HandlerConfig
}

// unserved is for a job that no handler is for; none is ever claimed, unless
// another program claims in this one's name.
var unserved = handler{fn: func(context.Context, store.Job) error { return Snooze(time.Minute) }}

// Handle registers the handler of a kind, whose payloads are JSON of T; for
// T json.RawMessage they come as they are. A kind that ends in * stands for all
// that begin like it and have no handler that is closer. It panics if the kind
// is not 1 to 200 bytes long, or has a handler already. Handlers are registered
// before Run.
func Handle[T any](d *Dispatcher, kind string, fn func(ctx context.Context, job Job[T]) error) {
	d.register(kind, false, func(ctx context.Context, job store.Job) error {
		typed, err := decode[T](ctx, job)
		if err != nil {
			return err
		}
		return fn(ctx, typed)
	})
}

// HandleTx registers a transactional handler: what it does in tx and the job's
// completion commit together, or neither does. The dispatcher begins and ends
// the transaction (READ COMMITTED), which holds the run lock of the job's lane
// meanwhile. When it fails to serialize or deadlocks (40001, 40P01), it is
// repeated at once, up to three times. An error rolls it back. What it sets
// for the session (SET without LOCAL, session-level advisory locks) outlives it
// on a connection that others use after it: use SET LOCAL.
//
// Panics as Handle does.
func HandleTx[T any](d *Dispatcher, kind string, fn func(ctx context.Context, tx pgx.Tx, job Job[T]) error) {
	d.register(kind, true, func(ctx context.Context, job store.Job) error {
		typed, err := decode[T](ctx, job)
		if err != nil {
			return err
		}
		return fn(ctx, typed.attempt.tx, typed)
	})
}

// Configure sets how a kind is handled, before or after its handler is
// registered, but before Run.
func (d *Dispatcher) Configure(kind string, c HandlerConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.configs[kind] = c
}

func (d *Dispatcher) register(kind string, transactional bool, fn HandlerFunc) {
	if d.running.Load() {
		panic(fmt.Sprintf("dispatcher: the handler of kind %q comes after Run", kind))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind == "" || len(kind) > 200 {
		panic(fmt.Sprintf("dispatcher: a kind of %d bytes, want 1 to 200", len(kind)))
	}
	if _, taken := d.handlers[kind]; taken {
		panic(fmt.Sprintf("dispatcher: kind %q has a handler already", kind))
	}
	for i := len(d.cfg.Middleware) - 1; i >= 0; i-- {
		fn = d.cfg.Middleware[i](fn)
	}
	d.handlers[kind] = handler{kind: kind, transactional: transactional, fn: fn}
}

// configured joins handlers with their configuration, as Run needs them.
func (d *Dispatcher) configured() (map[string]*handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.handlers) == 0 {
		return nil, errNoHandler
	}
	all := make(map[string]*handler, len(d.handlers))
	for kind, h := range d.handlers {
		h.HandlerConfig = d.configs[kind]
		if h.transactional {
			setDefault(&h.Timeout, defaultTxTimeout)
			if err := d.cfg.checkConns(true); err != nil {
				return nil, err
			}
		}
		all[kind] = &h
	}
	for kind, c := range d.configs {
		switch {
		case all[kind] == nil:
			return nil, fmt.Errorf("dispatcher: kind %q is configured, but has no handler", kind)
		case c.Timeout < 0:
			return nil, fmt.Errorf("dispatcher: the Timeout of kind %q is negative: %v", kind, c.Timeout)
		}
	}
	return all, d.checkKinds(all)
}
