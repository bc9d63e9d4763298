package dispatcher

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// Config says what a Dispatcher works on and how. The zero value works on the
// queue "default" with ten handlers at a time.
type Config struct {
	// Queues are the queues to work on, by name. Empty: "default" alone.
	// Every handler serves every queue, but for Queue.Kinds; dispatchers with
	// other handlers may share them.
	Queues map[string]Queue

	// Schema is where the migrations put Lockstep. "": store.DefaultSchema.
	Schema string

	// Name tells people which dispatcher this is, up to 200 bytes; it need
	// not be unique. "": the host's name.
	Name string

	// Lease is how long a claim holds without a heartbeat, so how long the
	// jobs of a worker that dies wait for another. 1 s to 1 day. Zero: 30 s.
	Lease time.Duration

	// Heartbeat is how often leases are renewed: 10 ms to half a Lease. Zero: a
	// third of it.
	Heartbeat time.Duration

	// Poll is how long a queue may go unlooked at, give or take a tenth. Jobs
	// do not wait for it: it stands behind lost signals, and what it finds is
	// counted as such (QueueStats.LostSignals). At least 10 ms. Zero: 2 s.
	Poll time.Duration

	// ShutdownGrace is how long handlers may go on once Run's context has
	// ended. Zero: 30 s. Negative: not at all.
	ShutdownGrace time.Duration

	// ReturnGrace is how long a handler may take to return once its own context
	// has ended. After that, its slot counts as stuck; an attempt that timed out
	// is then reported without it, and at shutdown its job is given back.
	// Zero: 5 s.
	ReturnGrace time.Duration

	// MaxConns bounds the dispatcher's own connections, of which none come from
	// the pool: one listens, one sends heartbeats, up to three claim and
	// finish, and MaxTx run transactional handlers. At least 3, or 4 with
	// HandleTx. Zero: as many as that makes.
	MaxConns int

	// MaxTx is how many transactional handlers run at a time, over all queues:
	// each holds a connection. Zero: 10, or the queues' concurrency in all if
	// that is less.
	MaxTx int

	// MaxJobs ends claiming after so many jobs in one Run; RunUntilIdle then
	// returns when they have ended. Lanes are not handed over. Zero: no end.
	MaxJobs int

	// ListenURL is a direct address of the database for the listener, needed
	// where the pool goes through a pooler in transaction mode. "": the pool's.
	ListenURL string

	// Middleware wraps every handler; the first is the outermost.
	Middleware []Middleware

	// OnEvent is told what happens, for metrics and tests. It is called from
	// many goroutines, holds up the one it is called from, and must not panic.
	// Nil: nobody.
	OnEvent func(Event)

	// Logger gets a line per change of a job's state, with the reason, never
	// with payloads: completed at level debug, released, snoozed and cancelled
	// at info, failed at warn, dead at error. An error that is a slog.LogValuer
	// is logged as that says, not as its text. Nil: slog.Default().
	Logger *slog.Logger
}

// Queue is how a Dispatcher works on one queue.
type Queue struct {
	// Concurrency is how many jobs of the queue this dispatcher runs at a
	// time: 1 to 10000. Zero: 10.
	Concurrency int

	// Kinds are the handlers that serve the queue, as they were registered.
	// Empty: all.
	Kinds []string
}

const (
	defaultConcurrency = 10
	defaultMaxTx       = 10
	defaultLease       = 30 * time.Second
	shortest           = 10 * time.Millisecond // of what is done over and over
	// Connections beside those of transactional handlers.
	listenerConns, heartbeatConns, controlConns = 1, 1, 3
	minConns                                    = listenerConns + heartbeatConns + 1
)

// withDefaults returns a copy in which zero values are replaced.
func (c Config) withDefaults() Config {
	if len(c.Queues) == 0 {
		c.Queues = map[string]Queue{"default": {}}
	}
	queues, total := make(map[string]Queue, len(c.Queues)), 0
	for name, q := range c.Queues {
		setDefault(&q.Concurrency, defaultConcurrency)
		queues[name] = q
		total += q.Concurrency
	}
	c.Queues = queues
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	setDefault(&c.Schema, store.DefaultSchema)
	setDefault(&c.Lease, defaultLease)
	setDefault(&c.Heartbeat, c.Lease/3)
	setDefault(&c.Poll, 2*time.Second)
	setDefault(&c.ShutdownGrace, 30*time.Second)
	setDefault(&c.ReturnGrace, 5*time.Second)
	setDefault(&c.MaxTx, min(defaultMaxTx, total))
	c.Middleware = slices.Clone(c.Middleware)
	return c
}

func setDefault[T comparable](field *T, to T) {
	var zero T
	if *field == zero {
		*field = to
	}
}

// validate names the first field that can't be used. It is asked before
// withDefaults, which never makes a good value bad.
func (c Config) validate() error {
	for name, q := range c.Queues {
		switch {
		case name == "" || len(name) > 200:
			return fmt.Errorf("dispatcher: the name of a queue is %d bytes long, want 1 to 200", len(name))
		case q.Concurrency < 0 || q.Concurrency > 10000:
			return fmt.Errorf("dispatcher: Queues[%q].Concurrency is %d, want 1 to 10000", name, q.Concurrency)
		}
	}
	switch {
	case len(c.Name) > 200:
		return fmt.Errorf("dispatcher: Name is %d bytes long, want at most 200", len(c.Name))
	case c.MaxTx < 0:
		return fmt.Errorf("dispatcher: MaxTx is negative: %d", c.MaxTx)
	case c.MaxJobs < 0:
		return fmt.Errorf("dispatcher: MaxJobs is negative: %d", c.MaxJobs)
	}
	if err := c.validateTimes(); err != nil {
		return err
	}
	return c.checkConns(c.MaxTx > 0)
}

func (c Config) validateTimes() error {
	lease := c.Lease
	setDefault(&lease, defaultLease)
	switch {
	case lease < time.Second || lease > 24*time.Hour:
		return fmt.Errorf("dispatcher: Lease is %v, want 1s to 24h", lease)
	case c.Heartbeat != 0 && (c.Heartbeat < shortest || c.Heartbeat > lease/2):
		return fmt.Errorf("dispatcher: Heartbeat is %v, want %v to half of Lease", c.Heartbeat, shortest)
	case c.Poll != 0 && c.Poll < shortest:
		return fmt.Errorf("dispatcher: Poll is %v, want at least %v", c.Poll, shortest)
	case c.ReturnGrace < 0:
		return fmt.Errorf("dispatcher: ReturnGrace is negative: %v", c.ReturnGrace)
	}
	return nil
}

// checkConns refuses a MaxConns that can't live, and says what can.
func (c Config) checkConns(tx bool) error {
	switch {
	case c.MaxConns == 0 || c.MaxConns > minConns || c.MaxConns == minConns && !tx:
		return nil
	case tx:
		return fmt.Errorf("dispatcher: MaxConns is %d; transactional handlers need at least %d "+
			"(listener, heartbeat, control, one transaction)", c.MaxConns, minConns+1)
	default:
		return fmt.Errorf("dispatcher: MaxConns is %d; it needs at least %d (listener, heartbeat, control), "+
			"%d with HandleTx", c.MaxConns, minConns, minConns+1)
	}
}

// shares divides MaxConns, once it was checked: control connections come
// first, but a transactional handler always finds one.
func (c Config) shares(tx bool) (control, txs int) {
	if tx {
		txs = c.MaxTx
	}
	if c.MaxConns == 0 {
		return controlConns, txs
	}
	rest := c.MaxConns - listenerConns - heartbeatConns
	if tx {
		txs = min(txs, max(1, rest-controlConns))
	}
	return min(controlConns, rest-txs), txs
}

var errNoHandler = errors.New("dispatcher: no handler: call Handle or HandleTx before Run")
