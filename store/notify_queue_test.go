package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC10_WhoHoldsTheNotifyQueueBack: a session that listens and leaves its
// transaction open is named, and while it does, the queue fills up.
func TestC10_WhoHoldsTheNotifyQueueBack(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true}) // the queue is the whole server's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	connect := func(application string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), server.URL("postgres")+"&application_name="+application)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	exec := func(conn *pgx.Conn, sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	blocker, producer, watcher := connect("forgotten"), connect("producer"), connect("watcher")
	look := func() store.NotifyQueue {
		q, err := store.New(watcher).NotifyQueue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	fill := func() {
		exec(producer, "select pg_notify('a_channel', repeat('x', 7990) || i) from generate_series(1, 1000) i")
	}
	exec(blocker, "listen a_channel")
	if q := look(); q.Usage != 0 || len(q.Open) != 0 {
		t.Errorf("at the beginning: %+v", q)
	}
	exec(blocker, "begin; select 1")
	fill()
	first := look()
	fill()
	second := look()
	if first.Usage <= 0 || second.Usage <= first.Usage || second.Usage > 1 {
		t.Errorf("the usage goes from %v to %v", first.Usage, second.Usage)
	}
	blamed := slices.IndexFunc(second.Open, func(o store.OpenTransaction) bool { return o.PID == int(blocker.PgConn().PID()) })
	if blamed != 0 {
		t.Fatalf("the open transactions are %+v, without %d in front", second.Open, blocker.PgConn().PID())
	}
	if o := second.Open[0]; o.Application != "forgotten" || o.State != "idle in transaction" || o.Database != "postgres" || o.Age <= 0 || o.Role == "" {
		t.Errorf("blamed: %+v", o)
	}
	exec(blocker, "rollback")
	fill() // moves the queue's tail on
	if q := look(); q.Usage >= second.Usage || len(q.Open) != 0 {
		t.Errorf("after the end of the transaction: %+v, before %v", q, second.Usage)
	}
}

func TestNotifyQueueFull(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("commit: %w", &pgconn.PgError{Code: "54000", File: "async.c"}), true},
		{&pgconn.PgError{Code: "54000", File: "nbtutils.c"}, false}, // too long for an index
		{&pgconn.PgError{Code: "22023", File: "async.c"}, false},
		{errors.New("54000"), false},
		{nil, false},
	} {
		if got := store.NotifyQueueFull(test.err); got != test.want {
			t.Errorf("%#v: %v", test.err, got)
		}
	}
}
