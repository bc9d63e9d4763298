package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// schemaNames are names that quoting or cutting goes wrong for, if it can.
var schemaNames = []string{"Jobs", "my-jobs", `a"b`, "select", strings.Repeat("x", 63)}

// decoys are things of our names where a name that is not qualified would find
// them.
const decoys = `
	create table public.job (like information_schema.sql_features);
	create table public.queue (name text); create table public.migration (version int); create table public.home (here bool);
	create view public.jobs as select 1 as id;
	create sequence public.turn; create sequence public.fence;
	create function public.enqueue(text) returns int language plpgsql as 'begin raise exception ''the decoy was called''; end';
	create function public.signal(text, text, bigint) returns void language plpgsql as 'begin raise exception ''the decoy was called''; end';
	create function public.now() returns timestamptz language plpgsql as 'begin raise exception ''the decoy was called''; end'`

// untouched tells what a decoy holds, and which there are.
const untouched = `select (select count(*) from public.job) + (select count(*) from public.queue) + (select count(*) from public.migration)
	+ (select count(*) from public.home) + (select last_value + is_called::int from public.turn) + (select last_value + is_called::int from public.fence) - 2
	+ 1000 * (select count(*) from pg_class where relnamespace = 'public'::regnamespace)
	+ 100000 * (select count(*) from pg_proc where pronamespace = 'public'::regnamespace)`

// TestC108 installs the earlier version in schemas of odd names, all in one
// database, upgrades them, works through the same jobs in each, and removes
// them, one after the other. With a search_path that leads nowhere, or to
// decoys.
func TestC108(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"pg_catalog", "public, pg_catalog"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			db := testdb.NewEmpty(t)
			db.Exec(t, decoys)
			before := testdb.Value[int64](t, db, untouched)
			pool := poolWithPath(t, db, path)
			for _, schema := range schemaNames {
				install(t, pool, schema)
			}
			stops := make([]func(), 0, len(schemaNames))
			for _, schema := range schemaNames {
				stops = append(stops, workIn(t, pool, schema))
			}
			for i, schema := range schemaNames {
				awaitAll(t, db, schema)
				stops[i]()
				report, err := verify.Run(t.Context(), pool, verify.Config{Schema: schema, Patience: -1})
				if err != nil || !report.Clean() {
					t.Errorf("%q: verify: %v, %v", schema, err, report.Findings)
				}
			}
			for i, schema := range schemaNames {
				remove(t, pool, schema)
				if left := testdb.Value[int](t, db, "select count(*) from pg_namespace where nspname = any ($1)", schemaNames); left != len(schemaNames)-i-1 {
					t.Errorf("after %q was removed %d are left", schema, left)
				}
			}
			if after := testdb.Value[int64](t, db, untouched); after != before {
				t.Errorf("the decoys were touched: %d before, %d after", before, after)
			}
		})
	}
}

func poolWithPath(t *testing.T, db *testdb.DB, path string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = path
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// with gives a connection of a pool to a function.
func with(t *testing.T, pool *pgxpool.Pool, fn func(*pgx.Conn) error) {
	t.Helper()
	if err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { return fn(conn.Conn()) }); err != nil {
		t.Fatal(err)
	}
}

// namedJobs is how many jobs each schema gets; the last one fails once.
const namedJobs = 30

// install brings in the earlier version, enqueues half of the jobs, upgrades,
// and enqueues the others.
func install(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	enqueue := func(from, to int) {
		for i := from; i < to; i++ {
			job := store.NewJob{Kind: "plain", Payload: map[string]any{"n": i, "schema": schema}, Queue: "q"}
			if i%3 > 0 {
				job.OrderingKey = fmt.Sprint("key ", i%3) // the same keys in every schema
			}
			if i%5 == 0 {
				job.Kind = "transactional"
			}
			if _, err := store.New(pool).In(schema).Enqueue(t.Context(), job); err != nil {
				t.Fatalf("%q: %v", schema, err)
			}
		}
	}
	up := func(config migrations.Config) {
		config.Schema = schema
		with(t, pool, func(conn *pgx.Conn) error {
			_, err := migrations.Up(t.Context(), conn, config)
			return err
		})
	}
	up(migrations.Config{Files: coreFiles(t)})
	if err := migrations.Require(t.Context(), pool, schema); !errors.Is(err, migrations.ErrPending) {
		t.Errorf("%q: before the upgrade: %v", schema, err)
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`insert into %s.job (kind, queue, ordering_key, payload)
		select 'plain', 'q', 'early', jsonb_build_object('n', i, 'schema', $1::text) from generate_series(1, 9) i`, quoted), schema); err != nil {
		t.Fatal(err)
	}
	up(migrations.Config{})
	enqueue(9, namedJobs)
}

// workIn runs a dispatcher on a schema until it is stopped. A job of another
// schema is an error.
func workIn(t *testing.T, pool *pgxpool.Pool, schema string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d, err := dispatcher.New(pool, dispatcher.Config{
		Schema: schema, Queues: map[string]dispatcher.Queue{"q": {Concurrency: 3}}, Poll: 10 * time.Minute,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	type payload struct {
		N      int    `json:"n"`
		Schema string `json:"schema"`
	}
	check := func(job dispatcher.Job[payload]) error {
		if job.Payload.Schema != schema {
			t.Errorf("a job of %q ran in %q", job.Payload.Schema, schema)
		}
		if job.Payload.N == namedJobs-1 && job.Attempt == 1 {
			return dispatcher.RetryAfter(time.Millisecond, errors.New("as planned"))
		}
		return nil
	}
	dispatcher.Handle(d, "plain", func(_ context.Context, job dispatcher.Job[payload]) error { return check(job) })
	dispatcher.HandleTx(d, "transactional", func(_ context.Context, _ pgx.Tx, job dispatcher.Job[payload]) error { return check(job) })
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%q: %v", schema, err)
		}
	}
}

func awaitAll(t *testing.T, db *testdb.DB, schema string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	quoted := pgx.Identifier{schema}.Sanitize()
	await(ctx, t, db, fmt.Sprintf("%q: all jobs completed", schema),
		"select count(*) = $1 from "+quoted+".finished_job where outcome = 'completed'", namedJobs)
}

func remove(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	with(t, pool, func(conn *pgx.Conn) error {
		return migrations.Down(t.Context(), conn, migrations.Config{Schema: schema}, migrations.DropEverything)
	})
}
