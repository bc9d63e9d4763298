package producers_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// linguistic gives a test a database whose texts are in the order of a language,
// and not of their bytes; before PostgreSQL 15, or on a server without ICU, it is
// one like all others.
func linguistic(t *testing.T) *testdb.DB {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), testdb.Server(t).URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec(context.Background(), "drop database if exists linguistic with (force)")
		_ = admin.Close(context.Background())
	})
	if _, err := admin.Exec(t.Context(), "create database linguistic template template0 locale_provider icu icu_locale 'en-US'"); err != nil {
		t.Logf("the server makes no database in the order of a language: %v", err)
		if _, err := admin.Exec(t.Context(), "create database linguistic template template0"); err != nil {
			t.Fatal(err)
		}
	}
	db := &testdb.DB{Name: "linguistic", URL: testdb.Server(t).URL("linguistic")}
	db.Migrate(t, migrations.Config{})
	return db
}

// TestKeysInTheOrderOfALanguage: two calls with the same dedupe keys, one by set
// and one job by job, pass the keys' gates in one order, which is not that of the
// column's collation.
func TestKeysInTheOrderOfALanguage(t *testing.T) {
	t.Parallel()
	db := linguistic(t)
	db.Exec(t, `select lockstep.enqueue('k', dedupe_key => k, ordering_key => k) from unnest('{a,aa,B}'::text[]) k`)
	db.Exec(t, "select lockstep.claim('11111111-1111-1111-1111-111111111111', 'default', '{k}', 3, '1 minute')")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var calls errgroup.Group
	call := func(jobs string) {
		conn := db.Conn(t)
		calls.Go(func() error {
			_, err := conn.Exec(ctx, "select lockstep.enqueue_many($1)", jobs)
			return err
		})
		poll := time.NewTicker(2 * time.Millisecond)
		defer poll.Stop()
		for pid := conn.PgConn().PID(); !testdb.Value[bool](t, db, "select wait_event_type is not distinct from 'Lock' from pg_stat_activity where pid = $1", int64(pid)); {
			if ctx.Err() != nil {
				t.Fatal("a call did not come to wait")
			}
			<-poll.C
		}
	}
	holder := db.Conn(t)
	if _, err := holder.Exec(ctx, "begin; select lockstep.enter_gate('default', '', 'aa')"); err != nil {
		t.Fatal(err)
	}
	call(`[{"kind": "k", "dedupe_key": "a", "dedupe": "one_more"}, {"kind": "k", "dedupe_key": "aa", "dedupe": "one_more"}, {"kind": "k", "dedupe_key": "B", "dedupe": "one_more"}]`)
	db.Exec(t, "select lockstep.complete(worker, id, fence) from lockstep.job")
	call(`[{"kind": "k", "dedupe_key": "a"}, {"kind": "k", "dedupe_key": "aa"}, {"kind": "k", "dedupe_key": "B"}]`)
	if _, err := holder.Exec(ctx, "commit"); err != nil {
		t.Fatal(err)
	}
	if err := calls.Wait(); err != nil {
		t.Error(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 3 {
		t.Errorf("%d jobs of three keys", n)
	}
}
