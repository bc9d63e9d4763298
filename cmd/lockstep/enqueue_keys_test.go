package main

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestEnqueueTellsWhatBecameOfARequest whose keys were given before, by flags
// and by a file.
func TestEnqueueTellsWhatBecameOfARequest(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	job := []string{"enqueue", "--kind", "k", "--dedupe-key", "d", "--dedupe", "replace"}
	id := strings.TrimSpace(c.run(t, append(job, "--idempotency-key", "i", "--payload", "1")...).want(t, exitOK).stdout)
	for _, again := range []struct{ key, payload, outcome string }{{"i", "1", "repeated"}, {"j", "2", "noted"}} {
		r := c.run(t, append(job, "--idempotency-key", again.key, "--payload", again.payload)...).want(t, exitOK)
		if want := id + "\t" + again.outcome + "\n"; r.stdout != want {
			t.Errorf("the answer is %q, want %q", r.stdout, want)
		}
	}
	c.stdin = `{"kind": "k", "dedupe_key": "d", "dedupe": "replace", "payload": 3}
{"kind": "k", "dedupe_key": "d", "dedupe": "replace", "payload": 2, "idempotency_key": "j"}`
	if r := c.run(t, "enqueue", "--file", "-").want(t, exitOK, `"jobs":0`, `"already_there":2`); r.stdout != id+"\tnoted\n"+id+"\trepeated\n" {
		t.Errorf("the answers to the file are %q", r.stdout)
	}
	if payload := testdb.Value[string](t, db, "select string_agg(payload::text, ' ') from lockstep.job"); payload != "3" {
		t.Errorf("the payload is %s, want the last one", payload)
	}
	c.run(t, "enqueue", "--kind", "other", "--idempotency-key", "i").want(t, exitRefused, "--idempotency-key:", "job "+id)
	c.stdin = "\n" + `{"kind": "other", "idempotency_key": "i"}`
	c.run(t, "enqueue", "--file", "-").want(t, exitRefused, "standard input:2: idempotency_key", "nothing was enqueued")
	c.run(t, "enqueue", "--kind", "k", "--dedupe-key", "e", "--dedupe", "newest").want(t, exitRefused, "--dedupe:", "reject, replace or one_more")
}
