package poolers_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/pgbouncer"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// patience is how long a test waits for what must happen before it fails.
const patience = 2 * time.Minute

// rig is a database behind a PgBouncer.
type rig struct {
	testing.TB
	db      *testdb.DB
	bouncer *pgbouncer.Bouncer
	log     syncBuffer

	mu     sync.Mutex
	events []dispatcher.Event
}

func newRig(t testing.TB) *rig {
	t.Helper()
	db := testdb.New(t)
	return &rig{TB: t, db: db, bouncer: pgbouncer.Start(t, testdb.Server(t), pgbouncer.Config{})}
}

// pool goes through PgBouncer; settings are added to its URL.
func (r *rig) pool(settings string) *pgxpool.Pool {
	r.Helper()
	pool, err := pgxpool.New(r.Context(), r.bouncer.URL(r.db.Name)+settings)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(pool.Close)
	return pool
}

// dispatcher makes one whose pool is as pgx makes it by default.
func (r *rig) dispatcher(cfg dispatcher.Config) *dispatcher.Dispatcher {
	r.Helper()
	cfg.OnEvent = r.record
	cfg.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	d, err := dispatcher.New(r.pool(""), cfg)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r *rig) record(e dispatcher.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// start runs dispatchers until stop.
func (r *rig) start(all ...*dispatcher.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(all))
	for _, d := range all {
		go func() { done <- d.Run(ctx) }()
	}
	stop = sync.OnceFunc(func() {
		cancel()
		for range all {
			if err := <-done; err != nil {
				r.Errorf("Run: %v", err)
			}
		}
	})
	r.Cleanup(stop)
	return stop
}

// await asks until a query on the database answers true.
func (r *rig) await(what, query string, args ...any) {
	r.Helper()
	r.until(what, func() bool { return testdb.Value[bool](r, r.db, query, args...) })
}

// awaitEvent waits for an event that matches.
func (r *rig) awaitEvent(what string, match func(dispatcher.Event) bool) {
	r.Helper()
	r.until(what, func() bool { return r.count(match) > 0 })
}

func (r *rig) until(what string, is func() bool) {
	r.Helper()
	for late := time.Now().Add(patience); !is(); r.db.Exec(r, "select pg_sleep(0.02)") {
		if time.Now().After(late) {
			r.Fatalf("%s: not within %v\n%s", what, patience, r.log.String())
		}
	}
}

func (r *rig) count(match func(dispatcher.Event) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if match(e) {
			n++
		}
	}
	return n
}

// expectNoTrouble fails for whatever a dispatcher met with.
func (r *rig) expectNoTrouble() {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		switch e.Type {
		case dispatcher.Trouble, dispatcher.LeaseLost, dispatcher.Ineffective, dispatcher.Unrecorded, dispatcher.Holder:
			r.Errorf("%s %s: %v", e.Type, e.Reason, e.Err)
		}
	}
}

// expectNoLocks: nobody holds an advisory lock in this database. A dispatcher
// that has stopped left no transaction; one that is being ended may take a
// moment to show.
func (r *rig) expectNoLocks() {
	r.Helper()
	r.await("0 advisory locks", `select not exists (select from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()))`)
}

func mode(name string) func(dispatcher.Event) bool {
	return func(e dispatcher.Event) bool { return e.Type == dispatcher.Listening && e.Reason == name }
}

// syncBuffer is a buffer for many goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func lane(i int) string { return fmt.Sprintf("lane %d", i) }
