package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestDatabaseInLatin1: what a database with fewer characters than UTF-8 has can't
// take, the files do not hold.
func TestDatabaseInLatin1(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), testdb.Server(t).URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec(context.Background(), "drop database if exists latin1 with (force)")
		_ = admin.Close(context.Background())
	})
	if _, err := admin.Exec(t.Context(), "create database latin1 template template0 encoding latin1 locale 'C'"); err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(testdb.Server(t).URL("latin1"))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["client_encoding"] = "UTF8"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	up(t, conn, migrations.Config{})
	if _, err := conn.Exec(t.Context(), `select lockstep.enqueue('k', '{"name": "é"}', ordering_key => 'ü', idempotency_key => 'ö')`); err != nil {
		t.Fatal(err)
	}
	var got string
	err = conn.QueryRow(t.Context(), `select (jobs -> 0 ->> 'ordering_key') || (jobs -> 0 -> 'payload' ->> 'name')
		from lockstep.claim('11111111-1111-1111-1111-111111111111', 'default', '{k}', 1, '1 minute')`).Scan(&got)
	if err != nil || got != "üé" {
		t.Errorf("claimed %q, %v", got, err)
	}
}
