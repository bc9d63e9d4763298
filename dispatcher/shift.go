package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/listener"
	"github.com/lockstep-pg/lockstep/locks"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// shift is one run of a Dispatcher, from its registration to the end: a worker
// of its own in the eyes of the database.
type shift struct {
	*Dispatcher
	worker   store.WorkerID
	handlers map[string]*handler
	kinds    *kinds // of all handlers
	tx       *txRoom
	budget   budget

	conns    *conns
	listener *listener.Listener
	locks    *locks.Locks
	leases   *leases
	heart    *heart
	finisher *finisher
	due      *due
	sweeper  *sweeper
	clock    clock
	queues   []*queue
	byHash   map[string]*queue // by what signals call them
	holders  sync.Map          // store.Stuck that the administrator was told of
	said     said
	worked   worked

	claiming context.Context // ends first: no more claims
	work     context.Context // what handlers' contexts descend from
	endWork  context.CancelCauseFunc
	hurry    chan struct{} // closed when handlers have no more grace

	hurryOnce sync.Once
	forced    chan struct{}   // closed when handlers are waited for no longer
	keeping   context.Context // ends when all work has: leases, signals
	endKeep   context.CancelFunc
	writes    context.Context // never ends: what is sent is not taken back

	loops   sync.WaitGroup // end with claiming
	slots   sync.WaitGroup // running attempts
	keepers sync.WaitGroup // end with keeping

	open     atomic.Int64 // attempts about which something is left to do
	progress atomic.Int64 // counts what may give other loops something to do
	change   chan struct{}

	// uncheckable: this server's system knows no client_connection_check_interval.
	uncheckable atomic.Bool
}

func newShift(ctx context.Context, d *Dispatcher, handlers map[string]*handler) *shift {
	s := &shift{
		Dispatcher: d, worker: store.NewWorkerID(), handlers: handlers,
		kinds: newKinds(slices.Sorted(maps.Keys(handlers)), handlers),
		hurry: make(chan struct{}), forced: make(chan struct{}), change: make(chan struct{}, 1), claiming: ctx,
		writes: context.WithoutCancel(ctx), byHash: make(map[string]*queue),
	}
	s.work, s.endWork = context.WithCancelCause(s.writes)
	s.keeping, s.endKeep = context.WithCancel(s.writes)
	s.budget.set(d.cfg.MaxJobs)
	control, txs := d.cfg.shares(len(s.kinds.tx) > 0)
	s.tx = &txRoom{free: txs, wanting: make(map[*queue]bool)}
	s.conns = newConns(d.pool, d.listen, control, txs)
	s.locks = locks.New(d.cfg.Schema)
	s.leases = newLeases(d.cfg.Lease)
	s.heart = newHeart(s)
	s.finisher = newFinisher(s, max(1, control-1))
	s.due, s.sweeper = newDue(s), newSweeper(s)
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Queues)) {
		s.queues = append(s.queues, newQueue(s, name, d.cfg.Queues[name]))
	}
	return s
}

// begin registers, which must precede the first claim, and waits for a
// database that is away; false if ctx ends first. What the server refuses is an
// error.
func (s *shift) begin(ctx context.Context) (begun bool, err error) {
	retry := newBackoff(100*time.Millisecond, 10*time.Second)
	for {
		known, err := s.enrol(ctx)
		if err == nil {
			s.adviseOnPooler()
			return true, s.prepare(known)
		}
		if ctx.Err() != nil {
			return false, nil
		}
		if misfit(err) || !unavailable(err) {
			return false, registerError(s.cfg.Schema, err)
		}
		s.trouble(ctx, "register", err)
		_ = sleep(ctx, retry.NextBackOff())
	}
}

// enrol registers in a schema of the version that this program is made for.
func (s *shift) enrol(ctx context.Context) (known store.Registered, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.heart.timeout(), errNoAnswer)
	defer cancel()
	err = s.conns.heartbeat.use(ctx, func(conn *pgx.Conn) (err error) {
		if err = migrations.Require(ctx, conn, s.cfg.Schema); err == nil {
			known, err = s.store(conn).Register(ctx, s.registration())
		}
		return err
	})
	return known, err
}

// misfit tells of a schema that is of another version than this program.
func misfit(err error) bool {
	return errors.Is(err, migrations.ErrNewer) || errors.Is(err, migrations.ErrPending)
}

func (s *shift) registration() store.Registration {
	r := store.Registration{Worker: s.worker, Name: s.cfg.Name, Kinds: s.kinds.all, Lease: s.cfg.Lease}
	for _, q := range s.queues {
		r.Queues = append(r.Queues, q.name)
	}
	return r
}

// prepare builds what needs to know the schema's channel.
func (s *shift) prepare(known store.Registered) (err error) {
	for i, hash := range known.QueueHashes {
		s.byHash[hash] = s.queues[i]
	}
	s.listener, err = listener.New(s.listening(known.Channel))
	return err
}

// start sets everything going. The lookouts need not wait for the listener: it
// has them look again as soon as LISTEN stands, and if it never does, they poll.
func (s *shift) start() {
	s.keepers.Go(func() { _ = s.listener.Run(s.keeping) })
	s.keepers.Go(func() { s.heart.run(s.keeping) })
	s.keepers.Go(func() { s.leases.watch(s.keeping) })
	s.loops.Go(func() { s.due.run(s.claiming) })
	s.loops.Go(func() { s.sweeper.run(s.claiming) })
	s.loops.Go(func() { s.upkeep(s.claiming) })
	for _, q := range s.queues {
		s.loops.Go(func() { newLookout(q).keep(s.claiming) })
	}
}

// stopping says that nothing more is to be begun.
func (s *shift) stopping() bool { return s.claiming.Err() != nil }

// hears reports whether signals arrive.
func (s *shift) hears() bool { return s.listener.State().Mode == listener.Connected }

// ringAll has all queues looked at.
func (s *shift) ringAll(why Reason) {
	for _, q := range s.queues {
		q.bell.ring(why)
	}
}

// registerError tells what to do about a schema that is not there.
func registerError(schema string, err error) error {
	if coded(err, codeNoSchema, codeNoFunction) {
		return fmt.Errorf("dispatcher: register in schema %q, is it migrated? (lockstep migrate up): %w", schema, err)
	}
	return fmt.Errorf("dispatcher: register: %w", err)
}
