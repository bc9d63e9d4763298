package dispatcher_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// patience is how long a test waits for what must happen before it fails.
const patience = 30 * time.Second

// rig is what a test of a dispatcher needs: a database, and a record of what
// the dispatcher tells.
type rig struct {
	testing.TB
	db   *testdb.DB
	pool *pgxpool.Pool

	mu     sync.Mutex
	events []dispatcher.Event
	more   chan struct{} // closed by the next event
}

func newRig(t testing.TB) *rig {
	t.Helper()
	db := testdb.New(t)
	return &rig{TB: t, db: db, pool: db.Pool(t), more: make(chan struct{})}
}

// dispatcher makes one whose poll can't hide a lost wake-up, unless cfg says
// otherwise.
func (r *rig) dispatcher(cfg dispatcher.Config) *dispatcher.Dispatcher {
	r.Helper()
	return r.dispatcherOn(r.pool, cfg)
}

func (r *rig) dispatcherOn(pool *pgxpool.Pool, cfg dispatcher.Config) *dispatcher.Dispatcher {
	r.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = 10 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(r.Output(), nil))
	}
	cfg.OnEvent = r.record
	d, err := dispatcher.New(pool, cfg)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r *rig) record(e dispatcher.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// start runs d until stop, which waits for it, or the end of the test.
func (r *rig) start(d *dispatcher.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			r.Error("Run does not return")
		}
	})
	r.Cleanup(stop)
	return stop
}

// runUntilIdle works off what there is.
func (r *rig) runUntilIdle(d *dispatcher.Dispatcher) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := d.RunUntilIdle(ctx); err != nil {
		r.Fatalf("RunUntilIdle: %v", err)
	}
}

// enqueue adds jobs and returns their ids.
func (r *rig) enqueue(jobs ...store.NewJob) (ids []int64) {
	r.Helper()
	done, err := store.New(r.pool).EnqueueMany(r.Context(), jobs)
	if err != nil {
		r.Fatal(err)
	}
	for _, job := range done {
		ids = append(ids, job.ID)
	}
	return ids
}

// count counts the events so far that match.
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

// await waits for the n-th event that matches, and returns it.
func (r *rig) await(what string, n int, match func(dispatcher.Event) bool) dispatcher.Event {
	r.Helper()
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		found, more := 0, r.more
		for _, e := range r.events {
			if match(e) {
				if found++; found == n {
					r.mu.Unlock()
					return e
				}
			}
		}
		r.mu.Unlock()
		select {
		case <-more:
		case <-timeout:
			r.Fatalf("%d of %d times: %s", found, n, what)
		}
	}
}

// awaitType waits for an event of a type; the job's, if id is not 0.
func (r *rig) awaitType(typ dispatcher.EventType, id int64) dispatcher.Event {
	r.Helper()
	return r.await(fmt.Sprintf("%q of job %d", typ, id), 1, func(e dispatcher.Event) bool {
		return e.Type == typ && (id == 0 || e.JobID == id)
	})
}

// receive waits for a value.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// fate is where a job has got to, and why. A settled one has ended; only its
// lane has not gone on yet.
func (r *rig) fate(id int64) (state string, attempt int, note string) {
	r.Helper()
	const sql = `
		select case when settled then outcome else 'live ' || stage::text || hold::text end, attempt, coalesce((select error from lockstep.attempt a where a.job_id = j.id order by fence desc limit 1), '') from lockstep.job j where id = $1
		union all select outcome, attempt, coalesce(error, result::text, '') from lockstep.finished_job where id = $1
		union all select 'dead', attempt, coalesce(error, '') from lockstep.dead_job where id = $1`
	if err := r.pool.QueryRow(r.Context(), sql, id).Scan(&state, &attempt, &note); err != nil {
		r.Fatalf("job %d: %v", id, err)
	}
	return state, attempt, note
}

// proxied is a pool whose connections go through a proxy.
func (r *rig) proxied() (*pgxpool.Pool, *faultproxy.Proxy) {
	r.Helper()
	cfg, err := pgxpool.ParseConfig(r.db.URL)
	if err != nil {
		r.Fatal(err)
	}
	proxy, err := faultproxy.Start(net.JoinHostPort(cfg.ConnConfig.Host, fmt.Sprint(cfg.ConnConfig.Port)))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = proxy.Close() })
	cfg.ConnConfig.Host, cfg.ConnConfig.Port = "127.0.0.1", uint16(proxy.Port())
	cfg.ConnConfig.Fallbacks = nil
	return newPool(r, cfg), proxy
}

func newPool(t testing.TB, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// until waits for a condition in the database.
func (r *rig) until(condition string, args ...any) {
	r.Helper()
	for deadline := time.Now().Add(patience); !testdb.Value[bool](r, r.db, "select "+condition, args...); {
		if time.Now().After(deadline) {
			r.Fatalf("waited %v for: %s", patience, condition)
		}
		<-time.After(2 * time.Millisecond)
	}
}
