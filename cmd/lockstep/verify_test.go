package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// headless is a call on a database with a lane that lost its head.
func headless(t *testing.T) (call, *testdb.DB) {
	t.Helper()
	db := testdb.New(t)
	c := on(db)
	for range 2 {
		c.run(t, "enqueue", "--kind", "k", "--ordering-key", `it's "a"`).want(t, exitOK)
	}
	db.Exec(t, "delete from lockstep.job where stage = 'r'")
	return c, db
}

func TestVerifyOfACleanQueue(t *testing.T) {
	t.Parallel()
	c := on(testdb.New(t))
	c.run(t, "enqueue", "--kind", "k", "--delay", "1h").want(t, exitOK)
	r := c.run(t, "verify").want(t, exitOK)
	for _, says := range []string{"1 live jobs, 0 finished", "findings   none\n"} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("stdout does not say %q:\n%s", says, r.stdout)
		}
	}
}

// TestVerifyNeedsToReadOnly has the rights of docs/verify.md, and no other.
func TestVerifyNeedsToReadOnly(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	role := "reads_" + db.Name
	db.Exec(t, "create role "+role+" login")
	t.Cleanup(func() { db.Exec(t, "drop owned by "+role); db.Exec(t, "drop role "+role) })
	db.Exec(t, "grant usage on schema lockstep to "+role)
	db.Exec(t, "grant select on all tables in schema lockstep to "+role)
	db.Exec(t, "grant execute on function lockstep.retention, lockstep.paused, lockstep.kind_rank, lockstep.schema_version to "+role)
	url := strings.Replace(db.URL, "://postgres@", "://"+role+"@", 1)
	c := call{stdin: on(db).run(t, "enqueue", "--kind", "k", "--delay", "1h").want(t, exitOK).stdout}
	c.run(t, "verify", "--ids", "-", "--database-url", url).want(t, exitOK)
}

func TestVerifyEndsInOneWithAFinding(t *testing.T) {
	t.Parallel()
	c, _ := headless(t)
	r := c.run(t, "verify", "--patience", "0s").want(t, exitFailure, "1 finding, listed")
	for _, says := range []string{
		`finding    headless: queue "default", ordering key "it's \"a\"": 1 job waits in a lane without a head`,
		"findings   1 headless\n",
	} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("stdout does not say %q:\n%s", says, r.stdout)
		}
	}
}

func TestVerifyAsJSON(t *testing.T) {
	t.Parallel()
	c, _ := headless(t)
	r := c.run(t, "verify", "--patience", "0s", "--json").want(t, exitFailure)
	var report verify.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, r.stdout)
	}
	want := verify.Lane{Queue: "default", OrderingKey: `it's "a"`}
	if len(report.Findings) != 1 || report.Findings[0].Lane != want || report.Totals[verify.Headless] != 1 || report.Schema != "lockstep" {
		t.Errorf("report = %+v", report)
	}
	for _, key := range []string{`"notices":[]`, `"commit_times":true`, `"retention_days":7`, `"class":"headless"`, `"ids":[2]`} {
		if !strings.Contains(r.stdout, key) {
			t.Errorf("the JSON has no %s: %s", key, r.stdout)
		}
	}
}

// TestVerifyTakesWhatEnqueuePrints, from a file and from a pipe.
func TestVerifyTakesWhatEnqueuePrints(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	var ids string
	for range 2 { // the second finds the first
		ids += c.run(t, "enqueue", "--kind", "k", "--delay", "1h", "--dedupe-key", "d").want(t, exitOK).stdout
	}
	r := c.run(t, "verify", "--ids", write(t, "ids", ids)).want(t, exitOK)
	if says := "ids        2 given: 2 live,"; !strings.Contains(r.stdout, says) {
		t.Errorf("stdout does not say %q:\n%s", says, r.stdout)
	}
	c.stdin = ids + "77\n"
	r = c.run(t, "verify", "--ids", "-").want(t, exitFailure)
	if says := "finding    missing: job 77 is not on record"; !strings.Contains(r.stdout, says) {
		t.Errorf("stdout does not say %q:\n%s", says, r.stdout)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	c := on(testdb.NewEmpty(t))
	c.run(t, "verify").want(t, exitFailure, "lockstep migrate status")
	c.run(t, "verify", "--ids", "nowhere/ids").want(t, exitUsage, "--ids", "nowhere/ids")
	c.run(t, "verify", "--limit", "0").want(t, exitUsage, "--limit is 0")
	c.run(t, "verify", "--patience", "-1s").want(t, exitUsage, "--patience is -1s")
	c.run(t, "verify", "--overdue", "0s").want(t, exitUsage, "--overdue is 0s")
	c.run(t, "verify", "now").want(t, exitUsage, "lockstep verify --help")

	c = on(testdb.New(t))
	c.stdin = "1\nseven\n"
	c.run(t, "verify", "--ids", "-").want(t, exitUsage, `standard input:2: "seven" is not a job id`)
}

func TestVerifyOfAnotherSchema(t *testing.T) {
	t.Parallel()
	c := on(testdb.NewEmpty(t))
	c.run(t, "migrate", "up", "--schema", `a"b`).want(t, exitOK)
	r := c.run(t, "verify", "--schema", `a"b`).want(t, exitOK)
	if says := `schema "a\"b" at`; !strings.Contains(r.stdout, says) {
		t.Errorf("stdout does not say %q:\n%s", says, r.stdout)
	}
}

func TestProgressOffATerminalIsPlainLines(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var out bytes.Buffer
	p := &progress{out: &out, began: began}
	for i, step := range []verify.Progress{{Step: "ids"}, {Step: "ids", Rows: 4096}, {Step: "lanes", Total: 4}, {Step: "lanes", Rows: 5, Total: 4}} {
		p.set(step)
		p.show(began.Add(time.Duration(2*i+2) * time.Second))
	}
	want := "   2 s  ids\n   4 s  ids, 4096 rows\n   6 s  lanes, about 4 rows being sorted by the server\n   8 s  lanes, 5 of about 5 rows\n"
	if out.String() != want {
		t.Errorf("shown:\n%swant:\n%s", out.String(), want)
	}
}
