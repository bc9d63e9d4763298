package main

import (
	"testing"

	"github.com/lockstep-pg/lockstep/integration/pgbouncer"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestCommandsThroughAPooler: every command does its work through a pooler in
// transaction mode, several times, as one session may serve them all.
func TestCommandsThroughAPooler(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	bouncer := pgbouncer.Start(t, testdb.Server(t), pgbouncer.Config{PoolSize: 2})
	c := on(db)
	c.env["LOCKSTEP_DATABASE_URL"] = bouncer.URL(db.Name)
	for range 3 {
		c.run(t, "migrate", "up").want(t, exitOK)
		c.run(t, "migrate", "status").want(t, exitOK)
		c.run(t, "enqueue", "--kind", "k", "--ordering-key", "a", "--payload", `{"n": 1}`, "--delay", "1h", "--header", "a=b").want(t, exitOK)
		file := c
		file.stdin = `{"kind": "k", "delay": "90m"}` + "\n" + `{"kind": "k", "payload": [1, "é"], "ordering_key": "b", "delay": "2h"}`
		file.run(t, "enqueue", "--file", "-").want(t, exitOK)
		c.run(t, "verify", "--patience", "0s").want(t, exitOK)
	}
	if n := jobCount(t, db); n != 9 {
		t.Errorf("%d jobs, want 9", n)
	}
}
