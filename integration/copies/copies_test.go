package copies_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// connect opens a connection, closed when the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// claim claims one job.
func claim(t *testing.T, db store.DB) ([]store.Job, error) {
	t.Helper()
	c, err := store.New(db).Claim(t.Context(), store.ClaimArgs{
		Worker: store.NewWorkerID(), Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: time.Minute,
	})
	return c.Jobs, err
}

// original is a database with jobs in which a worker was at work.
func original(t *testing.T) *testdb.DB {
	t.Helper()
	db := testdb.New(t)
	db.Exec(t, "insert into lockstep.job (kind) select 'k' from generate_series(1, 9)")
	if jobs, err := claim(t, db.Conn(t)); err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %d jobs: %v", len(jobs), err)
	}
	return db
}

// copyOf is a copy of a database under a name of its own. Nobody may be
// connected to the original.
func copyOf(t *testing.T, db *testdb.DB) (url string) {
	t.Helper()
	admin := connect(t, testdb.Server(t).URL("postgres"))
	name := "copy_of_" + db.Name
	for _, sql := range []string{
		"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '" + db.Name + "'",
		"create database " + name + " template " + db.Name,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return testdb.Server(t).URL(name)
}

// run is what a dispatcher's RunUntilIdle returns.
func run(t *testing.T, url string) error {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := dispatcher.New(pool, dispatcher.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[struct{}]) error { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return d.RunUntilIdle(ctx)
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
	return v
}

// TestCopy: in a copy of a database dispatchers and claims are refused, and
// producers are not, until it is adopted.
func TestCopy(t *testing.T) {
	t.Parallel()
	db := original(t)
	url := copyOf(t, db)
	conn := connect(t, url)
	_, claimErr := claim(t, conn)
	for what, err := range map[string]error{"dispatcher": run(t, url), "claim": claimErr} {
		if !errors.Is(err, store.ErrNotHome) || !strings.Contains(err.Error(), db.Name) || !strings.Contains(err.Error(), "lockstep adopt") {
			t.Errorf("%s in a copy: %v", what, err)
		}
	}
	if _, err := store.New(conn).Enqueue(t.Context(), store.NewJob{Kind: "k"}); err != nil {
		t.Errorf("a producer in a copy: %v", err)
	}
	if n := value[int](t, conn, "select count(*) from lockstep.finished_job"); n != 0 {
		t.Errorf("%d jobs ran", n)
	}
	fence := value[int64](t, conn, "select last_value from lockstep.fence")
	for i, want := range []bool{true, false} {
		if adopted, err := store.New(conn).Adopt(t.Context(), false); err != nil || adopted != want {
			t.Fatalf("adopt %d: %v, %v", i+1, adopted, err)
		}
	}
	if ahead := value[int64](t, conn, "select last_value from lockstep.fence") - fence; ahead < 1_000_000_000 {
		t.Errorf("fences are ahead by %d", ahead)
	}
	if err := run(t, url); err != nil {
		t.Errorf("the adopted copy: %v", err)
	}
	if n := value[int](t, conn, "select count(*) from lockstep.finished_job"); n != 9 {
		t.Errorf("%d jobs ran in the adopted copy, want all but the one whose lease the copy brought along", n)
	}
	if jobs, err := claim(t, connect(t, db.URL)); err != nil || len(jobs) != 1 {
		t.Errorf("the original: %d jobs, %v", len(jobs), err)
	}
}

// TestHold: a copy adopted with hold runs nothing until a queue is resumed.
func TestHold(t *testing.T) {
	t.Parallel()
	url := copyOf(t, original(t))
	conn := connect(t, url)
	if _, err := store.New(conn).Adopt(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 8} { // the ninth has a lease that the copy brought along
		if err := run(t, url); err != nil {
			t.Fatal(err)
		}
		if n := value[int](t, conn, "select count(*) from lockstep.finished_job"); n != want {
			t.Errorf("%d jobs ran, want %d", n, want)
		}
		value[string](t, conn, "select state from lockstep.resume(queue => 'default')")
	}
}

// TestSeen_TheClaimItselfLooks: without the look in claim, a worker that never
// registers runs the original's jobs.
func TestSeen_TheClaimItselfLooks(t *testing.T) {
	t.Parallel()
	db := testdb.NewFrom(t, testdb.Changed(t, testdb.Edit{File: "0010_claim.sql", Old: "perform @schema@.require_home();", New: ""}))
	db.Exec(t, "select lockstep.enqueue('k'), lockstep.require_home()")
	if jobs, err := claim(t, connect(t, copyOf(t, db))); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v: another rule keeps the copy from running them", len(jobs), err)
	}
}

// TestTemplate: a database in which no worker ever was may be copied freely.
func TestTemplate(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.enqueue('k')")
	if err := run(t, copyOf(t, db)); err != nil {
		t.Errorf("a copy of a template: %v", err)
	}
}

// TestPlace has each of what is recorded differ in turn.
func TestPlace(t *testing.T) {
	t.Parallel()
	for change, refused := range map[string]bool{
		"system_identifier = system_identifier + 1":             true, // another cluster, all else the same
		"database_oid = (database_oid::bigint + 1)::oid":        true,
		"database_name = database_name || ' '":                  true,
		"system_identifier = null":                              false, // recorded where the host does not tell it
		"recorded_at = '-infinity'":                             false,
		"system_identifier = null, database_name = 'elsewhere'": true,
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			db := original(t)
			db.Exec(t, "update lockstep.home set "+change)
			if _, err := claim(t, db.Conn(t)); errors.Is(err, store.ErrNotHome) != refused {
				t.Errorf("refused should be %v: %v", refused, err)
			}
		})
	}
}

// TestWithoutSuperuser: the schema's owner needs no right of an administrator,
// and where a host denies the system identifier, the rest is looked at.
func TestWithoutSuperuser(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]bool{"told": false, "denied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.NewEmpty(t)
			role := "owner_of_" + db.Name
			db.Exec(t, fmt.Sprintf("create role %s; grant create on database %s to %s", role, db.Name, role))
			t.Cleanup(func() { db.Exec(t, "drop owned by "+role+" cascade; drop role "+role) })
			if denied {
				db.Exec(t, "revoke execute on function pg_control_system() from public")
			}
			conn := db.Conn(t)
			if _, err := conn.Exec(t.Context(), "set role "+role); err != nil {
				t.Fatal(err)
			}
			if _, err := migrations.Up(t.Context(), conn, migrations.Config{}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := claim(t, conn); err != nil {
					t.Fatal(err)
				}
			}
			if told := value[bool](t, conn, "select system_identifier is not null from lockstep.home"); told == denied {
				t.Errorf("the system identifier is known: %v", told)
			}
			db.Exec(t, "update lockstep.home set database_oid = 1")
			if _, err := claim(t, conn); !errors.Is(err, store.ErrNotHome) {
				t.Errorf("in a copy: %v", err)
			}
		})
	}
}

// TestFirstWorkersDoNotWait: while one that records the home has not committed,
// others claim.
func TestFirstWorkersDoNotWait(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "insert into lockstep.job (kind) select 'k' from generate_series(1, 9)")
	tx, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := claim(t, tx); err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	other := db.Conn(t)
	if _, err := other.Exec(t.Context(), "set lock_timeout = '1ms'"); err != nil {
		t.Fatal(err)
	}
	if jobs, err := claim(t, other); err != nil || len(jobs) != 1 {
		t.Errorf("beside it: %d jobs, %v", len(jobs), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.home"); n != 1 {
		t.Errorf("%d homes are recorded", n)
	}
}

// TestPromotedStandby: a standby that takes over is at home: it has the cluster's
// identifier, and the database's name and oid.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	primary, err := postgres.Start(ctx, postgres.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	conn := connect(t, primary.URL("postgres"))
	if _, err := migrations.Up(ctx, conn, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(ctx, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	if _, err := conn.Exec(ctx, "select lockstep.enqueue('k'), lockstep.require_home()"); err != nil {
		t.Fatal(err)
	}
	for !value[bool](t, conn, "select coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) from pg_stat_replication") {
		value[string](t, conn, "select pg_sleep(0.02)::text")
	}
	primary.Crash()
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := run(t, standby.URL("postgres")); err != nil {
		t.Errorf("on the promoted standby: %v", err)
	}
	after := connect(t, standby.URL("postgres"))
	if n := value[int](t, after, "select count(*) from lockstep.home where system_identifier is not null"); n != 1 {
		t.Errorf("%d homes are recorded", n)
	}
}
