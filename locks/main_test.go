package locks_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// begin opens a transaction on a connection of its own, rolled back when the
// test ends.
func begin(t *testing.T, db *testdb.DB) pgx.Tx {
	t.Helper()
	tx, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// noLocks waits until nobody in the database holds an advisory lock.
func noLocks(t *testing.T, db *testdb.DB) {
	t.Helper()
	const held = `select count(*) from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
	for deadline := time.Now().Add(10 * time.Second); testdb.Value[int](t, db, held) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("an advisory lock is still held")
		}
	}
}
