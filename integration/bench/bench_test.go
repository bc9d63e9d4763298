package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
)

// BenchmarkDrain works off 200,000 keyless no-op jobs of 100 bytes that are
// there before the dispatcher starts.
func BenchmarkDrain(b *testing.B) {
	for _, keys := range []int{0, 5000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { drain(b, keys) })
	}
}

func drain(b *testing.B, keys int) {
	const jobs, concurrency = 200_000, 500
	for range b.N {
		b.StopTimer()
		pool := freshDatabase(b)
		fill(b, pool, jobs, keys)
		d := newDispatcher(b, pool, concurrency)
		var done atomic.Int64
		finished := make(chan struct{})
		dispatcher.Handle(d, "bench", func(context.Context, dispatcher.Job[json.RawMessage]) error {
			if done.Add(1) == jobs {
				close(finished)
			}
			return nil
		})
		b.StartTimer()
		stop := run(b, d)
		<-finished
		stop() // returns when the last outcome is recorded
		b.StopTimer()
		if left := value(b, pool, `select count(*) from lockstep.job`); left != 0 {
			b.Fatalf("%d jobs are left", left)
		}
	}
	b.ReportMetric(float64(b.N)*jobs/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
	b.Logf("%d no-op jobs of 100 bytes on %d keys, one dispatcher, concurrency %d, history kept; %s", jobs, keys, concurrency, setup())
}

// BenchmarkLatency measures an idle queue: from just before an INSERT, in a
// transaction of its own, to the start of the handler.
func BenchmarkLatency(b *testing.B) {
	for _, key := range []string{"", "entity"} {
		b.Run(fmt.Sprintf("key=%t", key != ""), func(b *testing.B) { latency(b, key) })
	}
}

func latency(b *testing.B, key string) {
	const jobs = 2000
	pool := freshDatabase(b)
	d := newDispatcher(b, pool, 10)
	started := make(chan time.Time, 1)
	dispatcher.Handle(d, "bench", func(context.Context, dispatcher.Job[json.RawMessage]) error {
		started <- time.Now()
		return nil
	})
	defer run(b, d)()
	var took []time.Duration
	insert := func() time.Duration {
		before := time.Now()
		exec(b, pool, `insert into lockstep.job (kind, ordering_key) values ('bench', nullif($1, ''))`, key)
		return (<-started).Sub(before)
	}
	for range 50 {
		insert() // connections, plans
	}
	b.ResetTimer()
	for range b.N {
		for i := range jobs {
			took = append(took, insert())
			<-time.After(time.Duration(3+i%5) * time.Millisecond) // the last job is finished, and the queue idle
		}
	}
	slices.Sort(took)
	for _, p := range []float64{50, 95, 99} {
		at := took[int(p/100*float64(len(took)))]
		b.ReportMetric(float64(at.Microseconds())/1000, fmt.Sprintf("p%.0f-ms", p))
	}
	b.ReportMetric(0, "ns/op")
	b.Logf("%d inserts into an idle queue, keyed %t, one dispatcher; %s", len(took), key != "", setup())
}

// BenchmarkWaiting measures what a million waiting jobs cost the dispatcher in
// memory while it works beside them: the process's resident set then, garbage
// included, less that before. They wait in the lane of a running job, or are
// ready and wait for a free slot.
func BenchmarkWaiting(b *testing.B) {
	for _, keys := range []int{1, 0} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { waiting(b, keys) })
	}
}

func waiting(b *testing.B, keys int) {
	const jobs, beside = 1_000_000, 1000
	for range b.N {
		pool := freshDatabase(b)
		d, err := dispatcher.New(pool, dispatcher.Config{
			Queues: map[string]dispatcher.Queue{"default": {Concurrency: 1}, "beside": {Concurrency: 1}},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		started := make(chan struct{})
		dispatcher.Handle(d, "bench", func(ctx context.Context, _ dispatcher.Job[json.RawMessage]) error {
			close(started)
			<-ctx.Done()
			return nil
		})
		worked := make(chan struct{})
		dispatcher.Handle(d, "beside", func(context.Context, dispatcher.Job[json.RawMessage]) error {
			worked <- struct{}{}
			return nil
		})
		stop := run(b, d)
		fill(b, pool, 1, keys)
		<-started
		debug.FreeOSMemory() // of the benchmarks before this one
		before := resident(b)
		fill(b, pool, jobs, keys)
		for range beside {
			exec(b, pool, `insert into lockstep.job (kind, queue) values ('beside', 'beside')`)
			<-worked
		}
		b.ReportMetric(float64(resident(b)-before)/(1<<20), "MB")
		stop()
	}
	b.ReportMetric(0, "ns/op")
	b.Logf("%d jobs waiting on %d keys, one running, %d others worked beside them; %s", jobs, keys, beside, setup())
}

// freshDatabase is a migrated database on a server of its own.
func freshDatabase(b *testing.B) *pgxpool.Pool {
	b.Helper()
	server, err := postgres.Start(b.Context(), postgres.Config{Durable: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Close() })
	pool, err := pgxpool.New(b.Context(), server.URL("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	err = pool.AcquireFunc(b.Context(), func(c *pgxpool.Conn) error {
		_, err := migrations.Up(b.Context(), c.Conn(), migrations.Config{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return pool
}

// fill inserts jobs of 100 bytes over a number of keys, 0 for none, in one
// statement.
func fill(b *testing.B, pool *pgxpool.Pool, jobs, keys int) {
	b.Helper()
	exec(b, pool, `insert into lockstep.job (kind, ordering_key, payload)
		select 'bench', case when $2 > 0 then 'key ' || i % greatest($2, 1) end, jsonb_build_object('text', repeat('x', 88))
		from generate_series(1, $1) i`, jobs, keys)
	exec(b, pool, `analyze lockstep.job`)
	exec(b, pool, `checkpoint`)
}

func newDispatcher(b *testing.B, pool *pgxpool.Pool, concurrency int) *dispatcher.Dispatcher {
	b.Helper()
	d, err := dispatcher.New(pool, dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: concurrency}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// run runs a dispatcher; the function it returns stops it and waits.
func run(b *testing.B, d *dispatcher.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func exec(b *testing.B, pool *pgxpool.Pool, sql string, args ...any) {
	b.Helper()
	if _, err := pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

func value(b *testing.B, pool *pgxpool.Pool, sql string) (n int) {
	b.Helper()
	if err := pool.QueryRow(b.Context(), sql).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// resident is the process's resident set in bytes.
func resident(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	var kB int64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		b.Fatal(err)
	}
	return kB << 10
}

func setup() string {
	return fmt.Sprintf("PostgreSQL on the same machine, fsync on, %s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
