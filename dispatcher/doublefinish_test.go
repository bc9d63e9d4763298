package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// heartbeatsThrough is a pool of whose connections a proxy can stop those that
// send heartbeats.
func (r *rig) heartbeatsThrough() (*pgxpool.Pool, *faultproxy.Proxy) {
	r.Helper()
	cfg := r.pool.Config()
	proxy, err := faultproxy.Start(net.JoinHostPort(cfg.ConnConfig.Host, fmt.Sprint(cfg.ConnConfig.Port)))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = proxy.Close() })
	cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		if strings.HasSuffix(conn.RuntimeParams["application_name"], "heartbeat") {
			conn.Host, conn.Port = "127.0.0.1", uint16(proxy.Port())
		}
		return nil
	}
	return newPool(r, cfg), proxy
}

// attempts keeps who runs the jobs of each key.
type attempts struct {
	mu       sync.Mutex
	running  map[string]int64         // the fence of a key's attempt whose context holds
	taken    map[string]chan struct{} // closed when a second attempt begins
	overlaps []string
}

func (a *attempts) begin(key string, fence int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.running[key]; other != 0 {
		a.overlaps = append(a.overlaps, fmt.Sprintf("key %s: fence %d begins beside %d", key, fence, other))
	}
	a.running[key] = fence
	if first := a.taken[key]; first == nil {
		a.taken[key] = make(chan struct{})
	} else if !closed(first) {
		close(first)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// takenOver is closed once another attempt of the key has begun.
func (a *attempts) takenOver(key string) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken[key]
}

func (a *attempts) end(key string, fence int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[key] == fence {
		a.running[key] = 0
	}
}

// TestC81_LateFinishTouchesNothing: a hundred times a worker that can do
// everything but renew its leases finishes at a random moment after it has lost
// them. Its handlers' contexts end in time, its reports change nothing, and say
// so; the key runs on, one at a time.
func TestC81_LateFinishTouchesNothing(t *testing.T) {
	t.Parallel()
	const rounds = 100
	r := newRig(t)
	other := &rig{TB: t, db: r.db, pool: r.pool, more: make(chan struct{})}
	pool, proxy := r.heartbeatsThrough()
	var log syncBuffer
	slots := map[string]dispatcher.Queue{"default": {Concurrency: rounds}}
	late := r.dispatcherOn(pool, dispatcher.Config{Lease: 8 * time.Second, Queues: slots, MaxJobs: rounds, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	next := other.dispatcher(dispatcher.Config{Lease: 30 * time.Second, Queues: slots})
	all := &attempts{running: map[string]int64{}, taken: map[string]chan struct{}{}}
	pause := func() { <-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond) }
	causes := make(chan error, rounds)
	dispatcher.Handle(late, "k", func(ctx context.Context, job dispatcher.Job[payload]) error {
		all.begin(job.OrderingKey, job.Fence)
		<-ctx.Done()
		all.end(job.OrderingKey, job.Fence)
		causes <- context.Cause(ctx)
		<-all.takenOver(job.OrderingKey)
		pause()
		return nil // too late: the other attempt runs, or is over
	})
	dispatcher.Handle(next, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		all.begin(job.OrderingKey, job.Fence)
		pause()
		all.end(job.OrderingKey, job.Fence)
		return nil
	})
	var jobs []store.NewJob
	for i := range rounds {
		jobs = append(jobs, store.NewJob{Kind: "k", OrderingKey: fmt.Sprint(i)}, store.NewJob{Kind: "k", OrderingKey: fmt.Sprint(i)})
	}
	r.enqueue(jobs...)
	r.start(late)
	r.await("started", rounds, func(e dispatcher.Event) bool { return e.Type == dispatcher.Started })
	proxy.Set(faultproxy.BlackHole)
	other.start(next)
	other.await("completed elsewhere", 2*rounds, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded })
	r.await("late reports that changed nothing", rounds, func(e dispatcher.Event) bool { return e.Type == dispatcher.Ineffective })

	for range rounds {
		if cause := receive(t, "a cause", causes); !errors.Is(cause, dispatcher.ErrLeaseLost) {
			t.Errorf("a context ended with %v", cause)
		}
	}
	for _, overlap := range all.overlaps {
		t.Error(overlap)
	}
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded }); n != 0 {
		t.Errorf("%d late reports were recorded", n)
	}
	if n := testdb.Value[int](t, r.db, `select count(*) from lockstep.finished_job f where outcome = 'completed' and worker =
		(select worker from lockstep.finished_job order by fence desc limit 1)`); n != 2*rounds {
		t.Errorf("%d jobs were completed by the other worker, want %d", n, 2*rounds)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.attempt where outcome = 'lost'"); n != rounds {
		t.Errorf("%d attempts are on record as lost, want %d", n, rounds)
	}
	if n := strings.Count(log.String(), "level=WARN msg=ineffective"); n != rounds {
		t.Errorf("the log tells of %d late reports, want %d", n, rounds)
	}
}
