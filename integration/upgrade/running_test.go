package upgrade_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// runDispatcher is what a dispatcher's Run returns at once.
func runDispatcher(t *testing.T, db *testdb.DB) error {
	t.Helper()
	d := newDispatcher(t, db.Pool(t))
	return d.Run(t.Context())
}

// newDispatcher runs the same handlers as testdata/worker.
func newDispatcher(t *testing.T, pool *pgxpool.Pool) *dispatcher.Dispatcher {
	t.Helper()
	d, err := dispatcher.New(pool, dispatcher.Config{Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	const ran = "insert into public.ran (id, by) values ($1, 'new')"
	dispatcher.Handle(d, "plain", func(ctx context.Context, job dispatcher.Job[struct{}]) error {
		_, err := pool.Exec(ctx, ran, job.ID)
		return err
	})
	dispatcher.HandleTx(d, "transactional", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[struct{}]) error {
		_, err := tx.Exec(ctx, ran, job.ID)
		return err
	})
	return d
}

// loadTime is how long work goes on after the migration, at the least.
func loadTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LOCKSTEP_UPGRADE_LOAD")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LOCKSTEP_UPGRADE_LOAD: %v", err)
	}
	return d
}

// TestC106 upgrades a database while two dispatchers of the earlier version
// work on it, has one of this version join them, and lets the old ones go on
// for LOCKSTEP_UPGRADE_LOAD (2 s). No job is lost, none runs out of order, and
// the old programs see no error that they do not get over.
func TestC106(t *testing.T) {
	t.Parallel()
	t.Run("this version", func(t *testing.T) {
		t.Parallel()
		upgradeUnderLoad(t, migrations.Config{}, true)
	})
	t.Run("a version to come", func(t *testing.T) {
		t.Parallel()
		upgradeUnderLoad(t, migrations.Config{Files: later(t)}, false)
	})
}

// later is a version after this one, which does all that an upgrade may do:
// functions made anew, and columns added to the tables that are busiest.
func later(t *testing.T) fstest.MapFS {
	t.Helper()
	const claim = "create or replace function @schema@.claim(worker uuid"
	files := testdb.Changed(t, testdb.Edit{File: "0010_claim.sql", Old: claim, New: `do $lockstep$ declare f regprocedure; begin
		for f in select p.oid::regprocedure from pg_proc p where p.pronamespace = @schema_literal@::regnamespace and p.proname = 'claim' loop
			execute 'drop function ' || f; end loop; end $lockstep$;
		` + claim})
	files[fmt.Sprintf("%04d_later.sql", len(files)+1)] = &fstest.MapFile{Data: []byte(`
		alter table @schema@.job add column later_on text not null default 'x';
		alter table @schema@.finished_job add column later_on text;
		alter table @schema@.dispatcher add column later_on text not null default '';`)}
	return files
}

func upgradeUnderLoad(t *testing.T, config migrations.Config, joined bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+loadTime(t))
	defer cancel()
	db := coreDB(t)
	db.Exec(t, "create table public.ran (id bigint not null, by text not null)")
	old := []*workerproc.Process{startOld(t, db), startOld(t, db)}
	producing, stopProducing := context.WithCancel(ctx)
	defer stopProducing()
	var producers errgroup.Group
	for i := range 2 {
		conn := db.Conn(t)
		producers.Go(func() error { return produce(producing, conn, i) })
	}
	awaitRan(ctx, t, db, 100, "old")
	if _, err := migrations.Up(ctx, db.Conn(t), config); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(loadTime(t))
	ran := testdb.Value[int](t, db, "select count(*) from public.ran where by = 'old'")
	awaitRan(ctx, t, db, ran+200, "old")
	stop := func() {}
	if joined {
		stop = join(t, db)
		awaitRan(ctx, t, db, 50, "new")
	}
	awaitTime(ctx, t, db, until)
	stopProducing()
	if err := producers.Wait(); err != nil {
		t.Error(err)
	}
	awaitDone(ctx, t, db)
	for _, p := range old {
		p.Signal(t, syscall.SIGTERM)
		if code := p.Wait(t); code != 0 {
			t.Errorf("an old worker ended in %d: %s", code, p.Stderr())
		}
		if strings.Contains(p.Stderr(), "level=ERROR") {
			t.Errorf("an old worker lost something:\n%s", p.Stderr())
		}
	}
	stop()
	judge(ctx, t, db)
}

// startOld starts a worker of the earlier version.
func startOld(t *testing.T, db *testdb.DB) *workerproc.Process {
	t.Helper()
	p := workerproc.StartCommand(t, "old worker", exec.Command(coreWorker(t), db.URL))
	p.Await(t, "running")
	return p
}

// join runs a dispatcher of this version until stop.
func join(t *testing.T, db *testdb.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := newDispatcher(t, db.Pool(t))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the new dispatcher: %v", err)
		}
	}
}

// produce enqueues jobs of four lanes, keyless ones and scheduled ones, as long
// as there are few unfinished.
func produce(ctx context.Context, conn *pgx.Conn, number int) error {
	for ctx.Err() == nil {
		_, err := conn.Exec(ctx, `insert into lockstep.job (kind, ordering_key, run_at)
			select (array['plain', 'transactional'])[1 + i % 2], nullif($1::text || (i % 5), $1 || '4'),
			       clock_timestamp() + case i % 7 when 0 then '50 ms' else '0' end::interval
			  from generate_series(1, 10) i where (select count(*) from lockstep.job) < 100`, fmt.Sprint(number))
		if err == nil {
			_, err = conn.Exec(ctx, "select pg_sleep(0.01)") // the pace, not a wait
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("a producer met with: %w", err)
		}
	}
	return nil
}

// await asks until a query answers true.
func await(ctx context.Context, t *testing.T, db *testdb.DB, what, query string, args ...any) {
	t.Helper()
	for !testdb.Value[bool](t, db, query, args...) {
		if ctx.Err() != nil {
			t.Fatalf("%s: not in time", what)
		}
		db.Exec(t, "select pg_sleep(0.02)")
	}
}

func awaitRan(ctx context.Context, t *testing.T, db *testdb.DB, n int, by string) {
	t.Helper()
	await(ctx, t, db, fmt.Sprintf("%d jobs run by %s", n, by), "select count(*) >= $1 from public.ran where by = $2", n, by)
}

func awaitDone(ctx context.Context, t *testing.T, db *testdb.DB) {
	t.Helper()
	await(ctx, t, db, "all jobs done", "select not exists (select from lockstep.job)")
}

func awaitTime(ctx context.Context, t *testing.T, db *testdb.DB, until time.Time) {
	t.Helper()
	await(ctx, t, db, "the time of the load", "select clock_timestamp() >= $1", until)
}

// judge has the promises proven on what was recorded.
func judge(ctx context.Context, t *testing.T, db *testdb.DB) {
	t.Helper()
	report, err := verify.Run(ctx, db.Conn(t), verify.Config{Patience: -1})
	if err != nil || !report.Clean() {
		t.Errorf("verify: %v, %v", err, report.Findings)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.finished_job where outcome <> 'completed'"); n > 0 {
		t.Errorf("%d jobs did not complete", n)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.dead_job"); n > 0 {
		t.Errorf("%d jobs are dead: %s", n, testdb.Value[string](t, db, "select error from lockstep.dead_job limit 1"))
	}
	if n := testdb.Value[int](t, db, `select count(*) from lockstep.finished_job f where not exists (select from public.ran r where r.id = f.id)`); n > 0 {
		t.Errorf("%d jobs are on record as completed and did not run", n)
	}
	if n := testdb.Value[int](t, db, `select count(*) from (select r.id from public.ran r join lockstep.finished_job f using (id)
		where f.kind = 'transactional' group by r.id having count(*) > 1) twice`); n > 0 {
		t.Errorf("%d transactional jobs ran more than once", n)
	}
	t.Log(testdb.Value[string](t, db, "select string_agg(by || ' ' || n, ', ') from (select by, count(*) n from public.ran group by by) c"))
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.attempt"); n > 0 {
		t.Errorf("%d attempts did not complete their job: %s", n, testdb.Value[string](t, db, "select string_agg(distinct outcome || ': ' || coalesce(error, ''), '; ') from lockstep.attempt"))
	}
}
