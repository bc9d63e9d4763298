package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// kill enqueues a job by flags and makes a dead letter of it.
func (c call) kill(t *testing.T, db *testdb.DB, reason string, flags ...string) (id string) {
	t.Helper()
	r := c.run(t, append([]string{"enqueue", "--kind", "k"}, flags...)...).want(t, exitOK)
	id = strings.TrimSpace(r.stdout)
	db.Exec(t, `select lockstep.fail(c.worker, (c.job ->> 'id')::bigint, (c.job ->> 'fence')::bigint, $1, permanent => true) from (
		select w.worker, json_array_elements(l.jobs) as job from (select gen_random_uuid() as worker) w,
		lateral lockstep.claim(w.worker, 'default', '{k}', 1, '1 minute') l) c`, reason)
	return id
}

// out checks what was printed, without the times in it.
func (r result) out(t *testing.T, want string) {
	t.Helper()
	got := regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`).ReplaceAllString(r.stdout, "T")
	if got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestDead(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	first := c.kill(t, db, "broken\nfor long", "--ordering-key", "a", "--tenant", "acme")
	second := c.kill(t, db, "timeout", "--payload", `{"n": 1}`)
	c.run(t, "dead", "list").want(t, exitOK).out(t, second+"\tT\tdefault/k\t1 attempt\ttimeout\n"+
		first+"\tT\tdefault/k\ttenant \"acme\"\tkey \"a\"\t1 attempt\tbroken …\n")
	c.run(t, "dead", "list", "--error", "%time%", "--kind", "k", "--from", "2020-01-01T00:00:00Z").want(t, exitOK).out(t, second+"\tT\tdefault/k\t1 attempt\ttimeout\n")
	c.run(t, "dead", "list", "--before", "2020-01-01T00:00:00Z").want(t, exitOK).out(t, "")
	c.run(t, "dead", "list", "--limit", "1", "--json").want(t, exitOK)

	var shown struct {
		ID       json.Number
		Payload  map[string]int
		Attempts []struct{ Error string }
	}
	r := c.run(t, "dead", "show", second).want(t, exitOK)
	if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || shown.ID.String() != second || shown.Payload["n"] != 1 || shown.Attempts[0].Error != "timeout" {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	c.run(t, "dead", "replay", second).want(t, exitOK).out(t, second+"\treplayed\n")
	c.run(t, "dead", "discard", first).want(t, exitOK).out(t, first+"\tdiscarded\n")
	c.run(t, "dead", "discard", first).want(t, exitFailure, "job "+first+": ", "there is no job")
	c.run(t, "dead", "show", second).want(t, exitFailure, "is not dead")
}

func TestDeadReplayAtARate(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	c.kill(t, db, "x")
	c.kill(t, db, "x")
	c.run(t, "dead", "replay", "--error", "x", "--rate", "0.5", "--by", "me").want(t, exitOK).out(t, "1\n")
	db.Exec(t, "select lockstep.due()")
	c.run(t, "dead", "replays").want(t, exitOK).out(t, "1\trunning\t0.5 a second\t1 replayed\t0 kept\t1 left\tsince T by me\terror \"x\"\n")
	c.run(t, "dead", "stop", "1").want(t, exitOK).out(t, "1\tstopped\n")
	c.run(t, "dead", "stop", "1").want(t, exitOK).out(t, "1\twas over already\n")
	c.run(t, "dead", "stop", "2").want(t, exitFailure, "there is no replay 2")
	c.run(t, "dead", "replay", "--all").want(t, exitOK).out(t, "2\n")
	r := c.run(t, "dead", "replays", "--json").want(t, exitOK)
	var run struct{ ID, Rate float64 }
	if err := json.NewDecoder(strings.NewReader(r.stdout)).Decode(&run); err != nil || run.ID != 2 || run.Rate != 10 {
		t.Errorf("the latest is %+v, %v", run, err)
	}
}

func TestDeadPurge(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	c.kill(t, db, "x")
	c.run(t, "dead", "purge", "--older-than", "1h").want(t, exitOK).out(t, "purged 0 dead letters\n")
	c.run(t, "dead", "purge", "--older-than", "0s", "--queue", "other").want(t, exitOK).out(t, "purged 0 dead letters\n")
	c.run(t, "dead", "purge", "--older-than", "0s", "--kind", "k").want(t, exitOK).out(t, "purged 1 dead letter\n")
}

func TestLanes(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	db.Exec(t, "select lockstep.set_queue('default', on_dead => 'block')")
	id := c.kill(t, db, "broken", "--ordering-key", "a")
	c.run(t, "enqueue", "--kind", "k", "--ordering-key", "a").want(t, exitOK)
	c.run(t, "lanes", "blocked").want(t, exitOK).out(t, fmt.Sprintf("default\tkey \"a\"\tjob %s dead since T\t1 waiting\tbroken\n", id))
	c.run(t, "lanes", "blocked", "--queue", "other", "--json").want(t, exitOK).out(t, "")
	c.run(t, "lanes", "unblock", "--ordering-key", "a").want(t, exitOK).out(t, "the lane goes on\n")
	c.run(t, "lanes", "unblock", "--ordering-key", "a").want(t, exitFailure, "is not blocked")
	c.run(t, "lanes", "skip", "--ordering-key", "a").want(t, exitOK).out(t, "the lane goes on\n")
	c.run(t, "lanes", "skip", "--ordering-key", "a").want(t, exitFailure, "has no head")
}

func TestDeadWrongUsage(t *testing.T) {
	t.Parallel()
	c := on(testdb.New(t))
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"dead replay", exitUsage, "needs ids, a filter, or else --all"},
		{"dead replay 1 --all", exitUsage, "can't be combined"},
		{"dead replay --all --kind k", exitUsage, "needs ids"},
		{"dead replay --all --rate 0", exitUsage, "--rate"},
		{"dead replay --all --rate 2000", exitRefused, "--rate: "},
		{`dead replay --error a\`, exitRefused, "--error: "},
		{"dead replay --kind= --queue q", exitUsage, "--kind"},
		{"dead list --from tomorrow", exitUsage, "--from"},
		{"dead list --limit 0", exitUsage, "--limit"},
		{"dead show x", exitUsage, "id"},
		{"dead purge", exitUsage, "--older-than"},
		{"dead purge --older-than -1h", exitUsage, "--older-than"},
		{"lanes unblock", exitUsage, "--ordering-key"},
		{"lanes skip --ordering-key a --queue=", exitUsage, "--queue"},
	} {
		c.run(t, strings.Fields(test.args)...).want(t, test.code, test.says)
	}
}
