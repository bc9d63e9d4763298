package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/locks"
	"github.com/lockstep-pg/lockstep/migrations"
)

// try is TryRun for a job of the lane (queue, "acme", key).
func try(t *testing.T, l *locks.Locks, tx pgx.Tx, queue, key string, id int64) bool {
	t.Helper()
	held, err := l.TryRun(t.Context(), tx, queue, "acme", key, id)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestRunLockKeepsTransactionsApart(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	holder, other := begin(t, db), begin(t, db)
	if !try(t, l, holder, "q", "key", 1) {
		t.Fatal("a free lock was refused")
	}
	if try(t, l, other, "q", "key", 2) {
		t.Error("the lane's lock was given twice, for two jobs")
	}
	// Neighbours: another key, queue and tenant, and the keyless job with the
	// same id.
	if !try(t, l, other, "q", "kex", 1) || !try(t, l, other, "p", "key", 1) || !try(t, l, other, "q", "", 1) {
		t.Error("a neighbour's lock was refused")
	}
	if held, err := l.TryRun(t.Context(), other, "q", "", "key", 1); !held || err != nil {
		t.Errorf("another tenant: %v, %v", held, err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !try(t, l, other, "q", "key", 2) {
		t.Error("refused after the holder's rollback")
	}
	if got, want := l.Stats().Run, (locks.Counts{Tried: 7, Refused: 1}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestRunLockOfAKeylessJobIsItsOwn(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	holder, other := begin(t, db), begin(t, db)
	if !try(t, l, holder, "q", "", 1) {
		t.Fatal("a free lock was refused")
	}
	if try(t, l, other, "q", "", 1) {
		t.Error("one job's lock was given twice")
	}
	if !try(t, l, other, "q", "", 2) {
		t.Error("another job's lock was refused")
	}
}

// Another client asks for the same number when it calls the SQL function.
func TestRunLockIsTheOneOfTheSchema(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("lockstep")
	if !try(t, l, begin(t, db), "q", "key", 1) {
		t.Fatal("a free lock was refused")
	}
	const same = "select pg_try_advisory_lock(lockstep.run_lock('q', 'acme', 'key', 7))"
	if testdb.Value[bool](t, db, same) {
		t.Error("SQL was given the lock that is held")
	}
}

// C28: two installs in one database don't meet.
func TestC28SchemasAreApart(t *testing.T) {
	t.Parallel()
	const odd = `my "own" schema`
	db := testdb.New(t)
	db.Migrate(t, migrations.Config{Schema: odd})
	ours, theirs := locks.New(""), locks.New(odd)
	if !try(t, ours, begin(t, db), "q", "key", 1) || !try(t, theirs, begin(t, db), "q", "key", 1) {
		t.Error("the same lane of another schema was refused")
	}
	if try(t, theirs, begin(t, db), "q", "key", 1) {
		t.Error("the lock of the oddly named schema was given twice")
	}
}

// What the package comment says about the same transaction.
func TestLocksAreReentrantWithinTheirTransaction(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	holder, other := begin(t, db), begin(t, db)
	for range 2 {
		if !try(t, l, holder, "q", "before", 1) {
			t.Fatal("refused to its own holder")
		}
	}
	savepoint, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !try(t, l, savepoint, "q", "before", 1) || !try(t, l, savepoint, "q", "after", 1) {
		t.Fatal("refused after a savepoint")
	}
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !try(t, l, other, "q", "after", 1) {
		t.Error("a lock taken after the savepoint outlived the rollback to it")
	}
	if try(t, l, other, "q", "before", 1) {
		t.Error("a lock taken before the savepoint did not")
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !try(t, l, other, "q", "before", 1) {
		t.Error("a lock taken twice is not released by one commit")
	}
}

func TestWaitRunGetsALockThatIsReleased(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	holder, waiter := begin(t, db), begin(t, db)
	try(t, l, holder, "q", "key", 1)
	type result struct {
		held bool
		err  error
	}
	done := make(chan result)
	go func() {
		held, err := l.WaitRun(t.Context(), waiter, "q", "acme", "key", 1, time.Now().Add(time.Minute))
		done <- result{held, err}
	}()
	for l.Stats().Run.Refused < 3 {
		select {
		case got := <-done:
			t.Fatalf("did not wait: %+v", got)
		default:
		}
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; !got.held || got.err != nil {
		t.Errorf("WaitRun: %+v", got)
	}
}

func TestWaitRunEnds(t *testing.T) {
	t.Parallel()
	db, l := testdb.New(t), locks.New("")
	try(t, l, begin(t, db), "q", "key", 1)
	waiter := begin(t, db)

	until := time.Now().Add(20 * time.Millisecond)
	if held, err := l.WaitRun(t.Context(), waiter, "q", "acme", "key", 1, until); held || err != nil {
		t.Errorf("at the deadline: %v, %v", held, err)
	}
	if early := time.Until(until); early > 0 {
		t.Errorf("gave up %v before the deadline", early)
	}
	if held, err := l.WaitRun(t.Context(), waiter, "q", "acme", "free", 1, time.Time{}); !held || err != nil {
		t.Errorf("a free lock, after the deadline: %v, %v", held, err)
	}

	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	refused := l.Stats().Run.Refused
	go func() {
		for l.Stats().Run.Refused < refused+8 { // by then it pauses most of the time
			select {
			case <-t.Context().Done():
				return
			default:
			}
		}
		cancel(stop)
	}()
	held, err := l.WaitRun(ctx, waiter, "q", "acme", "key", 1, time.Now().Add(time.Minute))
	if held || !errors.Is(err, stop) {
		t.Errorf("when the context ends: %v, %v", held, err)
	}
	if held, err := l.WaitRun(ctx, waiter, "q", "acme", "key", 1, time.Now().Add(time.Minute)); held || !errors.Is(err, stop) {
		t.Errorf("in a try, when the context has ended: %v, %v", held, err)
	}
}

// A database without the schema is an error, not a refusal, and not counted.
func TestTryRunWithoutTheSchema(t *testing.T) {
	t.Parallel()
	db, l := testdb.NewEmpty(t), locks.New("")
	held, err := l.TryRun(t.Context(), begin(t, db), "q", "", "key", 1)
	if held || err == nil || l.Stats() != (locks.Stats{}) {
		t.Errorf("held %v, error %v, stats %+v", held, err, l.Stats())
	}
}
