package main

import (
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestSteeringJobs(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	db.Exec(t, `insert into lockstep.job (kind, run_at) select 'k', '2999-01-01 UTC' from generate_series(1, 4)`)
	c.says(t, "1\tscheduled: scheduled for 2999-01-01T00:00:00Z\n", "status", "1")
	c.says(t, `{"id":1,"state":"scheduled","waiting_for":"scheduled for 2999-01-01T00:00:00Z"}`+"\n", "status", "1", "--json")
	c.says(t, "1\tready\n", "retry", "1")
	c.says(t, "1\tready: no live dispatcher handles this kind\n", "status", "1")
	c.says(t, "1\tscheduled\n", "reschedule", "1", "--delay", "1h")
	c.says(t, "2\tscheduled\n", "reschedule", "2", "--run-at", "2998-01-01T00:00:00Z")
	c.says(t, "2\tchanged\n", "priority", "2", "--to", "-9")
	c.says(t, `{"id":3,"state":"cancelled"}`+"\n"+`{"id":4,"state":"cancelled"}`+"\n", "cancel", "3", "4", "--json")
	c.says(t, "4\tended\n", "cancel", "4")
	got := testdb.Value[string](t, db, `select string_agg(concat_ws(' ', id, state, priority, extract(year from run_at) = 2998), ', ' order by id) from lockstep.jobs`)
	if want := "1 scheduled 0 f, 2 scheduled -9 t, 3 cancelled 0 f, 4 cancelled 0 f"; got != want {
		t.Errorf("the jobs: %s, want %s", got, want)
	}
}

func TestSteeringSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	db.Exec(t, `insert into lockstep.job (kind) values ('k')`)
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "--run-at or --delay", []string{"reschedule", "1"}},
		{exitUsage, "tomorrow", []string{"reschedule", "1", "--run-at", "tomorrow"}},
		{exitUsage, "x", []string{"cancel", "x"}},
		{exitRefused, "--delay", []string{"reschedule", "1", "--delay=-1s"}},
		{exitRefused, "--to: priority is 10", []string{"priority", "1", "--to", "10"}},
		{exitFailure, "there is no job 7", []string{"cancel", "7"}},
		{exitFailure, "job 1 is ready already", []string{"retry", "1"}},
		{exitFailure, "job 7", []string{"status", "7"}},
	} {
		c.run(t, test.args...).want(t, test.code, test.says)
	}
	if r := c.run(t, "cancel", "7"); r.stderr != "lockstep: there is no job 7\n" {
		t.Errorf("cancel of a job that is not there: %q", r.stderr)
	}
	r := c.run(t, "cancel", "7", "1", "8").want(t, exitFailure, "there is no job 7", "there is no job 8", "2 jobs of 3 failed")
	if r.stdout != "1\tcancelled\n" {
		t.Errorf("cancel of three, one of them there: %q", r.stdout)
	}
}
