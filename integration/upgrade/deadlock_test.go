package upgrade_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestUpgradeLetsWorkFinish: a transaction that has read the jobs when an
// upgrade begins may go on to write them. The upgrade waits for its end, in its
// first attempt.
func TestUpgradeLetsWorkFinish(t *testing.T) {
	t.Parallel()
	db := coreDB(t)
	work, upgrade := db.Conn(t), db.Conn(t)
	if _, err := work.Exec(t.Context(), "begin; select from lockstep.job"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := migrations.Up(t.Context(), upgrade, migrations.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		done <- err
	}()
	for !testdb.Value[bool](t, db, "select exists (select from pg_locks where pid = $1 and not granted)", int64(upgrade.PgConn().PID())) {
	}
	if _, err := work.Exec(t.Context(), "insert into lockstep.job (kind, ordering_key) values ('plain', 'k'); commit"); err != nil {
		t.Errorf("the work: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the upgrade: %v", err)
	}
	if bytes.Contains(log.Bytes(), []byte("deadlock")) {
		t.Errorf("the upgrade met with deadlocks:\n%s", log.String())
	}
}
