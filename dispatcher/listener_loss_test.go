package dispatcher_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// ownServer is a rig whose server may be stopped.
func ownServer(t *testing.T) (*rig, *postgres.Server) {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	db := &testdb.DB{Name: "postgres", URL: server.URL("postgres")}
	db.Migrate(t, migrations.Config{})
	return &rig{TB: t, db: db, pool: db.Pool(t), more: make(chan struct{})}, server
}

// becomes waits until the listener's mode has been this for the n-th time.
func (r *rig) becomes(mode listener.Mode, n int) {
	r.Helper()
	r.await("listener "+mode.String(), n, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Listening && e.Reason == mode.String()
	})
}

// TestListenURLOfAPool: the listener's address may have a pool's settings in it, as
// the pool's own may.
func TestListenURLOfAPool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	address, err := url.Parse(r.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("pool_max_conns", "7")
	address.RawQuery = query.Encode()
	d := r.dispatcher(dispatcher.Config{ListenURL: address.String()})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
}

// TestC1_C4_ListenerIsLost again and again, and with the whole server for
// several attempts: each time it comes back on a connection of its own, and jobs
// run promptly, with a poll that could not have helped.
func TestC1_C4_ListenerIsLost(t *testing.T) {
	t.Parallel()
	r, server := ownServer(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	r.listening()
	pids := map[uint32]bool{d.Stats().Listener.BackendPID: true}
	work := func(n int) {
		r.becomes(listener.Connected, n+1)
		r.enqueue(store.NewJob{Kind: "k"})
		r.awaitRecorded(n)
		pids[d.Stats().Listener.BackendPID] = true
	}
	for n := range 3 {
		if _, err := r.pool.Exec(t.Context(), "select pg_terminate_backend($1)", d.Stats().Listener.BackendPID); err != nil {
			t.Fatal(err)
		}
		work(n + 1)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for before := d.Stats().Listener.Reconnects; d.Stats().Listener.Reconnects < before+3; {
		<-time.After(10 * time.Millisecond) // three attempts that fail
	}
	if err := server.StartAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.pool.Reset() // its connections are those of before
	work(4)
	if len(pids) != 5 {
		t.Errorf("%d backends in all, want 5", len(pids))
	}
	if q := d.Stats().Queues["default"]; q.LostSignals != 0 || q.Looks[dispatcher.ByPoll].Jobs != 0 {
		t.Errorf("jobs were found by the poll: %+v", q)
	}
}

// TestC2_ListenerInABlackHole: its connection dies without a sound. Jobs run by
// the poll meanwhile; within 30 s that is told, and when the network is back,
// signals arrive again.
func TestC2_ListenerInABlackHole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	address := r.pool.Config().ConnConfig
	proxy, err := faultproxy.Start(net.JoinHostPort(address.Host, fmt.Sprint(address.Port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	listen, err := url.Parse(r.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	listen.Host = net.JoinHostPort("127.0.0.1", fmt.Sprint(proxy.Port()))
	d := r.dispatcher(dispatcher.Config{Poll: 200 * time.Millisecond, ListenURL: listen.String()})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
	r.start(d)
	r.listening()
	proxy.Set(faultproxy.BlackHole)
	began := time.Now()
	for n := range 5 {
		r.enqueue(store.NewJob{Kind: "k"})
		r.awaitRecorded(n + 1)
	}
	r.becomes(listener.Stale, 1)
	if lost := d.Stats().Queues["default"].LostSignals; lost < 4 {
		t.Errorf("%d lost signals are counted, want all but perhaps the first", lost)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("that nothing arrives was told after %v", took)
	}
	if state := d.Stats().Listener; state.Mode != listener.Stale || state.Unanswered != 1 {
		t.Errorf("%+v", state)
	}
	proxy.Set(faultproxy.Fault{})
	r.becomes(listener.Connected, 2)
}
