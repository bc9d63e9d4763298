package locks_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/locks"
)

func nothing(context.Context, pgx.Tx) error { return nil }

// free reports whether the mutex can be had.
func free(t *testing.T, l *locks.Locks, pool *pgxpool.Pool, name string) bool {
	t.Helper()
	held, err := l.TryMutex(t.Context(), pool, name, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestMutexRefusesTheSecond(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	pool := db.Pool(t)
	held, err := l.TryMutex(t.Context(), pool, "books", func(ctx context.Context, _ pgx.Tx) error {
		ran := false
		held, err := l.TryMutex(ctx, pool, "books", func(context.Context, pgx.Tx) error { ran = true; return nil })
		if held || err != nil || ran {
			t.Errorf("a second time: held %v, error %v, ran %v", held, err, ran)
		}
		if !free(t, l, pool, "other books") {
			t.Error("another mutex was refused")
		}
		if testdb.Value[bool](t, db, "select pg_try_advisory_xact_lock(lockstep.mutex_lock('books'))") {
			t.Error("SQL was given the mutex that is held")
		}
		return nil
	})
	if !held || err != nil {
		t.Errorf("held %v, error %v", held, err)
	}
	if !free(t, l, pool, "books") {
		t.Error("refused after its end")
	}
	if got, want := l.Stats().Mutex, (locks.Counts{Tried: 4, Refused: 1}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestMutexCommitsOrRollsBack(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	pool := db.Pool(t)
	db.Exec(t, "create table note (text text)")
	write := func(text string, result error) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into note values ($1)", text)
			return errors.Join(err, result)
		}
	}
	if held, err := l.TryMutex(t.Context(), pool, "m", write("kept", nil)); !held || err != nil {
		t.Errorf("held %v, error %v", held, err)
	}
	failure := errors.New("no luck")
	if held, err := l.TryMutex(t.Context(), pool, "m", write("undone", failure)); !held || !errors.Is(err, failure) {
		t.Errorf("held %v, error %v", held, err)
	}
	if got := testdb.Value[string](t, db, "select string_agg(text, ' ') from note"); got != "kept" {
		t.Errorf("notes: %q", got)
	}
	if !free(t, l, pool, "m") {
		t.Error("refused after a rollback")
	}
}

func TestMutexIsFreeAfterAPanic(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	pool := db.Pool(t)
	func() {
		defer func() {
			if recover() != "oops" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = l.TryMutex(t.Context(), pool, "m", func(context.Context, pgx.Tx) error { panic("oops") })
	}()
	if !free(t, l, pool, "m") {
		t.Error("refused after a panic")
	}
}

func TestMutexIsFreeAfterItsContextEnded(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	pool := db.Pool(t)
	for name, interrupted := range map[string]func(context.Context, pgx.Tx) error{
		"in a statement": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select pg_sleep(60)")
			return err
		},
		"between statements": func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		held, err := l.TryMutex(ctx, pool, "m", func(ctx context.Context, tx pgx.Tx) error {
			cancel()
			return interrupted(ctx, tx)
		})
		if !held || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: held %v, error %v", name, held, err)
		}
		noLocks(t, db)
	}
}

// The state functions refuse any other isolation level.
func TestMutexIsReadCommitted(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), "set default_transaction_isolation = 'serializable'"); err != nil {
		t.Fatal(err)
	}
	_, err := l.TryMutex(t.Context(), conn, "m", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select lockstep.require_read_committed()")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMutexErrors(t *testing.T) {
	t.Parallel()
	db, l := testdb.NewEmpty(t), locks.New("")
	conn := db.Conn(t)
	for name, mutex := range map[string]string{"no name": "", "no schema": "m"} {
		ran := false
		held, err := l.TryMutex(t.Context(), conn, mutex, func(context.Context, pgx.Tx) error { ran = true; return nil })
		if held || err == nil || ran {
			t.Errorf("%s: held %v, error %v, ran %v", name, held, err, ran)
		}
	}
	if got := l.Stats(); got != (locks.Stats{}) {
		t.Errorf("stats: %+v", got)
	}
}
