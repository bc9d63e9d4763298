package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC91MaxConns: with any number of connections, transactional handlers
// either run or are refused with the number that they need; and the number
// holds.
func TestC91MaxConns(t *testing.T) {
	t.Parallel()
	const concurrency = 8
	for _, conns := range []int{1, 2, 3, 4, 5, concurrency, concurrency + 1} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			t.Parallel()
			r := txRig(t)
			d, err := dispatcher.New(r.pool, dispatcher.Config{
				MaxConns: conns, OnEvent: r.record,
				Queues: map[string]dispatcher.Queue{"default": {Concurrency: concurrency}},
			})
			if conns < 3 {
				if err == nil || !strings.Contains(err.Error(), "at least 3") || !strings.Contains(err.Error(), "4 with HandleTx") {
					t.Errorf("New says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var used atomic.Int64
			dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
				const sql = "select count(*) from pg_stat_activity where application_name like 'lockstep %' and datname = current_database()"
				if n := testdb.Value[int64](t, r.db, sql); n > used.Load() {
					used.Store(n)
				}
				return effect(ctx, tx, job)
			})
			if conns < 4 {
				if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "at least 4") {
					t.Errorf("Run says %v", err)
				}
				return
			}
			jobs := make([]store.NewJob, 5*concurrency)
			for i := range jobs {
				jobs[i] = store.NewJob{Kind: "k", OrderingKey: fmt.Sprint(i % 12)}
			}
			r.enqueue(jobs...)
			r.runUntilIdle(d)
			if n := r.effects(); n != len(jobs) {
				t.Errorf("%d effects, want %d", n, len(jobs))
			}
			if used.Load() > int64(conns) {
				t.Errorf("%d connections in use, want at most %d", used.Load(), conns)
			}
		})
	}
}

// TestConnectionsTellWhatTheyAreFor, behind the user's own name for them.
func TestConnectionsTellWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.pool.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = "billing"
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{Lease: time.Second})
	started, release := make(chan struct{}), make(chan struct{})
	dispatcher.HandleTx(d, "k", func(context.Context, pgx.Tx, dispatcher.Job[payload]) error {
		close(started)
		<-release
		return nil
	})
	r.enqueue(store.NewJob{Kind: "k"})
	r.start(d)
	receive(t, "the handler", started)
	for _, role := range []string{"listener", "heartbeat", "control", "tx"} {
		r.until("exists (select from pg_stat_activity where application_name = $1)", "billing lockstep "+role)
	}
	close(release)
}

// TestPoolWithNotificationsOfItsOwn: what the pool's connections do with
// notifications keeps no signal from the dispatcher.
func TestPoolWithNotificationsOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.pool.Config()
	cfg.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "listen theirs")
		return err
	}
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	r.db.Exec(t, "notify theirs")
	r.awaitType(dispatcher.Recorded, r.enqueue(store.NewJob{Kind: "k"})[0])
	if s := d.Stats().Listener; s.CatchUps != 1 || s.LastError != "" {
		t.Errorf("the listener: %+v", s)
	}
}

// TestC26BlackHole: calls that get no answer fail in time, as often as there
// are connections and more, and when the network is back, so is the dispatcher. A
// claim that it gave up may come through then: its job waits for the lease's end.
func TestC26BlackHole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool, proxy := r.proxied()
	d := r.dispatcherOn(pool, dispatcher.Config{Poll: 50 * time.Millisecond, Lease: 5 * time.Second})
	d.SetCallTimeout(2 * time.Second)
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	proxy.Set(faultproxy.BlackHole)
	claims := func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble && e.Reason == "claim" }
	if e := r.await("claim without an answer", 1, claims); !errors.Is(e.Err, context.DeadlineExceeded) && !pgconn.Timeout(e.Err) {
		t.Errorf("the claim failed with %v", e.Err)
	}
	r.await("more calls without an answer than there are connections", 4, func(e dispatcher.Event) bool { return e.Type == dispatcher.Trouble })
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	proxy.Set(faultproxy.Fault{})
	r.awaitType(dispatcher.Recorded, id)
}

// TestC21ReadOnly: a server that is read-only for a while uses up no attempts,
// and connections to it are not kept.
func TestC21ReadOnly(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{Poll: 50 * time.Millisecond})
	dispatcher.Handle(d, "k", nop)
	dispatcher.HandleTx(d, "tx", effect)
	r.start(d)
	r.listening()
	r.db.Exec(t, fmt.Sprintf("alter database %s set default_transaction_read_only = on", r.db.Name))
	r.db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'lockstep%'")
	r.await("claims refused", 3, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Trouble && e.Err != nil && strings.Contains(e.Err.Error(), "25006")
	})
	r.db.Exec(t, "insert into lockstep.job (kind, ordering_key) values ('k', 'a'), ('tx', 'a')") // in a session from before
	r.db.Exec(t, fmt.Sprintf("alter database %s reset default_transaction_read_only", r.db.Name))
	for n := range 2 {
		id := testdb.Value[int64](t, r.db, "select min(id) + $1 from (select id from lockstep.job union select id from lockstep.finished_job) j", n)
		r.awaitType(dispatcher.Recorded, id)
		if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 {
			t.Errorf("job %d: %s in attempt %d", id, state, attempt)
		}
	}
}
