package migrations_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestManyStartAtOnce has ten processes meet on an empty database.
func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	var appliers atomic.Int32
	var group errgroup.Group
	for range 10 {
		conn := db.Conn(t)
		group.Go(func() error {
			result, err := migrations.Up(limited(t), conn, migrations.Config{})
			if len(result.Applied) > 0 {
				appliers.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if n := appliers.Load(); n != 1 {
		t.Errorf("%d of ten applied the files, want one", n)
	}
}

// waits is a log handler that tells of every message; Up logs when it waits.
type waits struct {
	slog.Handler
	told chan string
}

func (w waits) Handle(_ context.Context, record slog.Record) error {
	w.told <- record.Message
	return nil
}

func (w waits) Enabled(context.Context, slog.Level) bool { return true }

// TestWaitsForRunningWork has a transaction use a table that a migration wants
// to change. Others' work goes on while the migration waits, and once that
// transaction is over it is applied.
func TestWaitsForRunningWork(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	db := testdb.NewEmpty(t)
	set := two()
	conn, worker, other := db.Conn(t), db.Conn(t), db.Conn(t)
	up(t, conn, migrations.Config{Files: set})
	set["0003_change.sql"] = files("", "alter table @schema@.thing add column more text")[""]

	if _, err := worker.Exec(ctx, "begin; insert into lockstep.thing values ('work')"); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		_, err := migrations.Up(ctx, conn, migrations.Config{Files: set, Logger: slog.New(waits{told: told})})
		done <- err
	}()
	for range 2 {
		<-told // an attempt has failed
		// This may stand behind the next attempt, but not until the worker ends.
		if _, err := other.Exec(ctx, "insert into lockstep.thing values ('other work')"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := worker.Exec(ctx, "commit"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "select more from lockstep.thing")
}

// TestWaitEndsWithTheContext has the lock never come free.
func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	db.Exec(t, "begin; select pg_advisory_xact_lock(hashtextextended('lockstep migration lockstep', 0))")
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string, 100)
	go func() {
		<-told
		cancel()
	}()
	_, err := migrations.Up(ctx, db.Conn(t), migrations.Config{Files: two(), Logger: slog.New(waits{told: told})})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Up returned %v", err)
	}
	if testdb.Value[bool](t, db, "select exists (select from pg_namespace where nspname = 'lockstep')") {
		t.Error("something was applied")
	}
}
