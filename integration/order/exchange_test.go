package order_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestHandlersEnqueueToEachOther: transactional handlers that are about to
// commit, each into the others' lanes, do not deadlock. For as long as it
// should be:
//
//	go test ./integration/order -run TestHandlersEnqueueToEachOther -order.exchange=60s
func TestHandlersEnqueueToEachOther(t *testing.T) {
	t.Parallel()
	x := newExchange(t, testdb.New(t))
	stop := x.start()
	for range 3 {
		before := x.counts()
		<-time.After(*long / 3)
		for n, now := range x.counts() {
			if now == before[n] {
				t.Errorf("%s stands still after %d jobs", x.lane(n), now)
			}
		}
	}
	stop()
	x.finish()
	x.awaitSessionsEnd()
	if n := x.deadlocks(); n > 0 || x.told.Load() > 0 {
		t.Errorf("%d deadlocks; %d events tell of one", n, x.told.Load())
	}
	x.checkEffects()
	t.Logf("jobs by lane: %v", x.counts())
}

// TestExchangeHasTeeth: where the end of a transactional handler lets its lane
// move on before the commit, the same exchange deadlocks.
func TestExchangeHasTeeth(t *testing.T) {
	t.Parallel()
	x := newExchange(t, testdb.NewFrom(t, edited(t, onlySettledInTx)))
	stop := x.start()
	defer stop()
	deadline := time.After(time.Minute)
	for x.deadlocks() == 0 {
		select {
		case <-time.After(50 * time.Millisecond): // the server tells after a second at most
		case <-deadline:
			t.Fatalf("there was no deadlock; jobs by lane: %v", x.counts())
		}
	}
}

// exchange is four lanes whose handlers enqueue to each other's.
type exchange struct {
	t       testing.TB
	db      *testdb.DB
	over    atomic.Bool // nothing more is enqueued
	handled [4]atomic.Int64
	told    atomic.Int64 // events that tell of a deadlock
}

func newExchange(t testing.TB, db *testdb.DB) *exchange {
	x := &exchange{t: t, db: db}
	db.Exec(t, `create table effect (job bigint primary key)`)
	db.Exec(t, fmt.Sprintf(`alter database %s set deadlock_timeout = '20ms'`, db.Name))
	for lane := range x.handled {
		db.Exec(t, `insert into lockstep.job (kind, ordering_key) values ($1, $2)`, kind, x.lane(lane))
	}
	return x
}

func (x *exchange) lane(n int) string { return fmt.Sprint("lane ", n) }

func (x *exchange) dispatcher() *dispatcher.Dispatcher {
	d, err := dispatcher.New(openPool(x.t, x.db, 1), dispatcher.Config{
		Queues:  map[string]dispatcher.Queue{"default": {Concurrency: 4}},
		OnEvent: x.listen,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		x.t.Fatal(err)
	}
	dispatcher.HandleTx(d, kind, x.handle)
	return d
}

func (x *exchange) listen(e dispatcher.Event) {
	var pg *pgconn.PgError
	if errors.As(e.Err, &pg) && pg.Code == "40P01" {
		x.told.Add(1)
	}
}

// handle enqueues to one or more of the other lanes where nobody waits: so most
// lanes are about to run empty, and the exchange never ends by itself.
func (x *exchange) handle(ctx context.Context, tx pgx.Tx, job dispatcher.Job[struct{}]) error {
	if _, err := tx.Exec(ctx, `insert into effect values ($1)`, job.ID); err != nil {
		return err
	}
	one := true
	for _, n := range rand.Perm(len(x.handled)) {
		lane := x.lane(n)
		if lane == job.OrderingKey {
			x.handled[n].Add(1)
			continue
		}
		if x.over.Load() || !one && rand.IntN(2) == 0 {
			continue
		}
		one = false
		if err := x.enqueue(ctx, tx, lane); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) enqueue(ctx context.Context, tx pgx.Tx, lane string) error {
	var taken bool
	err := tx.QueryRow(ctx, `select exists (select from lockstep.job
		where queue = 'default' and tenant = '' and ordering_key = $1 and stage = 'w')`, lane).Scan(&taken)
	if err != nil || taken {
		return err
	}
	_, err = store.New(tx).Enqueue(ctx, store.NewJob{Kind: kind, OrderingKey: lane})
	return err
}

// start lets two dispatchers exchange jobs until it is told to stop.
func (x *exchange) start() (stop func()) {
	ctx, cancel := context.WithCancel(x.t.Context())
	var workers errgroup.Group
	for range 2 {
		d := x.dispatcher()
		workers.Go(func() error { return d.Run(ctx) })
	}
	return func() {
		cancel()
		if err := workers.Wait(); err != nil {
			x.t.Error(err)
		}
	}
}

func (x *exchange) counts() []int64 {
	counts := make([]int64, len(x.handled))
	for n := range counts {
		counts[n] = x.handled[n].Load()
	}
	return counts
}

// finish works off what is there.
func (x *exchange) finish() {
	x.over.Store(true)
	if err := x.dispatcher().RunUntilIdle(x.t.Context()); err != nil {
		x.t.Error(err)
	}
}

// awaitSessionsEnd waits until all who may have had a deadlock are gone: what
// they had is then counted.
func (x *exchange) awaitSessionsEnd() {
	deadline := time.Now().Add(10 * time.Second)
	for testdb.Value[int](x.t, x.db, `select count(*) from pg_stat_activity
		where datname = current_database() and application_name like '%lockstep%'`) > 0 {
		if time.Now().After(deadline) {
			x.t.Fatal("the dispatchers' sessions are still there")
		}
	}
}

// deadlocks counts those that the server knows of.
func (x *exchange) deadlocks() int {
	return testdb.Value[int](x.t, x.db, `select deadlocks from pg_stat_database where datname = current_database()`)
}

// checkEffects compares what the handlers did with the jobs that completed.
func (x *exchange) checkEffects() {
	effects := testdb.Value[int](x.t, x.db, `select count(*) from effect`)
	done := testdb.Value[int](x.t, x.db, `select count(*) from effect e join lockstep.jobs j on j.id = e.job where j.state = 'completed'`)
	all := testdb.Value[int](x.t, x.db, `select count(*) from lockstep.jobs`)
	if effects != done || effects != all {
		x.t.Errorf("%d jobs, %d effects, %d of them of completed jobs", all, effects, done)
	}
}
