package main

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	c.says(t, "paused\n", "pause", "--tenant", "acme", "--queue", "q", "--reason", "moving house", "--by", "ann")
	c.says(t, "already paused\n", "pause", "--queue", "q", "--tenant", "acme", "--reason", "other")
	c.says(t, "paused\n", "pause", "--queue", "q", "--ordering-key", "a b")
	if by := testdb.Value[string](t, db, "select paused_by from lockstep.pauses where scope = 'key'"); by == "" {
		t.Error("nobody is said to have paused")
	}
	list := c.run(t, "pauses").want(t, exitOK).stdout
	if !strings.Contains(list, "\t--queue \"q\" --tenant \"acme\"\tby ann\tmoving house\n") || !strings.Contains(list, `--queue "q" --ordering-key "a b"`) {
		t.Errorf("pauses: %q", list)
	}
	if list := c.run(t, "pauses", "--json").want(t, exitOK).stdout; !strings.HasPrefix(list, `{"queue":"q","tenant":"acme","reason":"moving house","paused_by":"ann","paused_at":"2`) {
		t.Errorf("pauses --json: %q", list)
	}
	c.says(t, "resumed\n", "resume", "--queue", "q", "--tenant", "acme")
	c.says(t, "not paused\n", "resume", "--queue", "q", "--tenant", "acme")
	c.says(t, "resumed\n", "resume", "--queue", "q", "--ordering-key", "a b")
	c.says(t, "", "pauses")
}

// says runs the program, which must do well and say just this.
func (c call) says(t *testing.T, output string, args ...string) {
	t.Helper()
	if r := c.run(t, args...).want(t, exitOK); r.stdout != output {
		t.Errorf("%v says %q, want %q", args, r.stdout, output)
	}
}

func TestResumeReturnsAllThatWasParked(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	on(db).says(t, "paused\n", "pause", "--tenant", "acme")
	db.Exec(t, "insert into lockstep.job (kind, tenant, stage, hold) select 'k', 'acme', 'b', 'p' from generate_series(1, 2001)")
	on(db).says(t, "resumed, 2001 jobs returned to the ready line\n", "resume", "--tenant", "acme")
}

func TestPauseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := on(testdb.New(t))
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "--ordering-key", nil},
		{exitRefused, "--tenant", []string{"--tenant", ""}},
		{exitRefused, "--queue", []string{"--ordering-key", "a"}},
		{exitRefused, "--kind", []string{"--kind", "k", "--tenant", "t"}},
		{exitRefused, "lockstep: --by: paused_by is 201", []string{"--kind", "k", "--by", long(201)}},
		{exitRefused, "--reason", []string{"--kind", "k", "--reason", long(2001)}},
	} {
		c.run(t, append([]string{"pause"}, test.args...)...).want(t, test.code, test.says)
	}
	c.says(t, "", "pauses")
}
