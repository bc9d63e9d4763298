package roles

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// login is a pool of a role that logs in itself.
func login(t *testing.T, db *testdb.DB, role string) *pgxpool.Pool {
	t.Helper()
	db.Exec(t, "alter role "+quote(role)+" login")
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestC109Roles: a migrator that is no superuser, a worker whose dispatcher runs
// plain and transactional jobs, and a producer that can do no more than enqueue.
func TestC109Roles(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	names := roles(t, db, "migrator", "worker", "producer")
	migrator, worker, producer := login(t, db, names[0]), login(t, db, names[1]), login(t, db, names[2])
	db.Exec(t, "revoke create on schema public from public; grant create on database "+db.Name+" to "+quote(names[0]))
	db.Exec(t, "create table effect (job bigint); grant insert on effect to "+quote(names[1]))
	if err := migrator.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		_, err := migrations.Up(t.Context(), conn.Conn(), migrations.Config{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, grant := range []error{store.New(migrator).GrantWorker(t.Context(), names[1]), store.New(migrator).GrantProducer(t.Context(), names[2])} {
		if grant != nil {
			t.Fatal(grant)
		}
	}
	enqueueing := store.New(producer)
	for _, kind := range []string{"plain", "tx"} {
		for range 3 {
			if _, err := enqueueing.Enqueue(t.Context(), store.NewJob{Kind: kind, OrderingKey: "a", DedupeKey: ""}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := enqueueing.EnqueueMany(t.Context(), []store.NewJob{{Kind: "plain", DedupeKey: "d"}, {Kind: "plain", Delay: 50 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	if _, err := producer.Exec(t.Context(), "insert into lockstep.job (kind, ordering_key) values ('plain', 'b')"); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"select payload from lockstep.job", "select lockstep.claim(gen_random_uuid(), 'default', '{plain}', 1, '1 minute')", "create table public.mine ()"} {
		if _, err := producer.Exec(t.Context(), statement); code(err) != "42501" {
			t.Errorf("a producer: %s: %v", statement, err)
		}
	}
	work(t, db, worker, 9)
	if n := testdb.Value[int](t, db, "select count(*) from effect"); n != 3 {
		t.Errorf("%d effects of transactional jobs, want 3", n)
	}
}

// work runs a dispatcher until n jobs are completed.
func work(t *testing.T, db *testdb.DB, pool *pgxpool.Pool, n int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	failures := make(chan dispatcher.Event, 100)
	d, err := dispatcher.New(pool, dispatcher.Config{OnEvent: func(e dispatcher.Event) {
		if e.Err != nil {
			select {
			case failures <- e:
			default:
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, n)
	dispatcher.Handle(d, "plain", func(context.Context, dispatcher.Job[any]) error { done <- struct{}{}; return nil })
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[any]) error {
		_, err := tx.Exec(ctx, "insert into effect values ($1)", job.ID)
		done <- struct{}{}
		return err
	})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for range n {
		select {
		case <-done:
		case <-ctx.Done():
			t.Error("not all jobs ran")
		}
	}
	for ctx.Err() == nil && testdb.Value[int](t, db, "select count(*) from lockstep.finished_job where outcome = 'completed'") < n {
		<-time.After(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case e := <-failures:
		t.Errorf("the worker's role failed: %v: %v", e.Type, e.Err)
	default:
	}
}
