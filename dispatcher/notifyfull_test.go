package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC10_FullNotifyQueue fills a server's queue of notifications for real:
// since PostgreSQL 17 it can be made small. Producers and a finish that notifies
// are refused meanwhile, it is told who is to blame, and once that session has
// ended, everything goes on without an attempt used up.
func TestC10_FullNotifyQueue(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Settings: map[string]string{"max_notify_queue_pages": "64"}}
	if testdb.Value[int](t, testdb.NewEmpty(t), "select current_setting('server_version_num')::int") < 170000 {
		config.BinDir = binaries(t, "18") // before 17 the queue has 8 GB
	}
	server, err := postgres.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	run := func(conn *pgx.Conn, sql string) error {
		_, err := conn.Exec(t.Context(), sql)
		return err
	}
	blocker, producer := connect(), connect()
	if _, err := migrations.Up(t.Context(), producer, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &rig{TB: t, pool: pool, more: make(chan struct{})}
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 1}}})
	begun, goOn := make(chan int64, 3), make(chan struct{})
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[struct{}]) error {
		begun <- job.ID
		<-goOn
		return nil
	})
	r.start(d)
	// The finish of the first makes the third runnable, and takes none along, as
	// the second is ready.
	enqueue := func(keys string) {
		if err := run(producer, "select lockstep.enqueue('k', ordering_key => key) from unnest('"+keys+"'::text[]) key"); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("{a}")
	<-begun
	enqueue("{null,a}")

	var channel string
	if err := producer.QueryRow(t.Context(), "select lockstep.channel()").Scan(&channel); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run(blocker, "listen "+channel), run(blocker, "begin; select 1")); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		err = run(producer, "select pg_notify('others', repeat('x', 7000) || i) from generate_series(1, 20) i")
	}
	if !store.NotifyQueueFull(err) {
		t.Fatalf("filling the queue ends in %v", err)
	}
	if _, err := store.New(producer).Enqueue(t.Context(), store.NewJob{Kind: "k"}); !store.NotifyQueueFull(err) {
		t.Errorf("a producer gets %v", err)
	}
	blocked := func(o store.OpenTransaction) bool { return o.PID == int(blocker.PgConn().PID()) }
	queue, err := store.New(producer).NotifyQueue(t.Context())
	if err != nil || queue.Usage < 0.5 || !slices.ContainsFunc(queue.Open, blocked) {
		t.Errorf("to blame should be %d: %+v, %v", blocker.PgConn().PID(), queue, err)
	}
	close(goOn)
	r.await("a finish that is refused", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Trouble && e.Reason == "finish" && store.NotifyQueueFull(e.Err)
	})
	r.await("the session to blame", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Trouble && e.Reason == "notify queue" && strings.Contains(e.Err.Error(), fmt.Sprintf("pid %d (idle in transaction", blocker.PgConn().PID()))
	})
	if err := run(blocker, "rollback"); err != nil {
		t.Fatal(err)
	}
	r.await("all jobs completed", 3, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Outcome == store.Completed })
	var lost int
	if err := producer.QueryRow(t.Context(), "select count(*) from lockstep.attempt").Scan(&lost); err != nil || lost > 0 {
		t.Errorf("%d attempts were used up (%v)", lost, err)
	}
}

// binaries are those of a major version, got if need be.
func binaries(t *testing.T, major string) string {
	t.Helper()
	output, err := exec.Command("../integration/postgres/install.sh", major).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}
