package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestEnqueueOneJobWithEveryFlag(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	r := on(db).run(t, "enqueue", "--kind", "invoice.sync", "--payload", `{"big": 9007199254740993, "exact": 0.10}`,
		"--queue", "billing", "--tenant", "acme", "--ordering-key", "account-7", "--priority", "-9",
		"--run-at", "2999-01-31T12:00:00+01:00", "--max-attempts", "3", "--dedupe-key", "d",
		"--header", "traceparent=00-ab-cd-01", "--header", "list=a;b,c").want(t, exitOK)

	id := strings.TrimSuffix(r.stdout, "\n")
	got := testdb.Value[string](t, db, `select concat_ws('|', kind, payload::text, queue, tenant, ordering_key, priority,
		run_at at time zone 'UTC', max_attempts, dedupe_key, headers ->> 'traceparent', headers ->> 'list')
		from lockstep.job where id = $1::text::bigint`, id)
	want := `invoice.sync|{"big": 9007199254740993, "exact": 0.10}|billing|acme|account-7|-9|` +
		`2999-01-31 11:00:00|3|d|00-ab-cd-01|a;b,c`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the job differs (-want +got):\n%s", diff)
	}
}

func TestEnqueueOneJobWithDefaults(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	on(db).run(t, "enqueue", "--kind", "k", "--delay", "1h").want(t, exitOK)
	got := testdb.Value[string](t, db, `select concat_ws('|', kind, payload, queue, tenant, ordering_key, priority, max_attempts,
		run_at - created_at > '59 min') from lockstep.job`)
	if want := "k|{}|default||0|12|t"; got != want {
		t.Errorf("job = %s, want %s", got, want)
	}
}

func TestEnqueueTellsWhenADedupeKeyIsTaken(t *testing.T) {
	t.Parallel()
	c := on(testdb.New(t))
	first := c.run(t, "enqueue", "--kind", "k", "--dedupe-key", "d").want(t, exitOK)
	second := c.run(t, "enqueue", "--kind", "k", "--dedupe-key", "d").want(t, exitOK)
	if want := strings.TrimSuffix(first.stdout, "\n") + "\texisting\n"; second.stdout != want {
		t.Errorf("the second answer is %q, want %q", second.stdout, want)
	}
}

// badJobs are what has to be refused: by the flags of one job, and as a line of
// a file; field is the name in SQL. Without flags it is only wrong in a file: as
// flags it is wrong usage.
var badJobs = map[string]struct {
	field string
	flags []string
	line  string
}{
	"empty kind":            {"kind", []string{"--kind", ""}, `{"kind": ""}`},
	"no kind":               {"kind", nil, `{}`},
	"long kind":             {"kind", []string{"--kind", long(201)}, fmt.Sprintf(`{"kind": %q}`, long(201))},
	"NUL in kind":           {"kind", []string{"--kind", "a\x00b"}, `{"kind": "a\u0000b"}`},
	"payload over 1 MiB":    {"payload", []string{"--kind", "k", "--payload", big}, `{"kind": "k", "payload": ` + big + `}`},
	"payload not JSON":      {"payload", []string{"--kind", "k", "--payload", "{"}, `{"kind": "k", "payload": {]}`},
	"NUL in payload":        {"payload", []string{"--kind", "k", "--payload", `{"a": "\u0000"}`}, `{"kind": "k", "payload": {"a": "\u0000"}}`},
	"NUL in payload's key":  {"payload", []string{"--kind", "k", "--payload", `{"\u0000": 1}`}, `{"kind": "k", "payload": [{"\u0000": 1}]}`},
	"lone surrogate":        {"payload", []string{"--kind", "k", "--payload", `["\ud800"]`}, `{"kind": "k", "payload": "\ud800x"}`},
	"number beyond numeric": {"payload", []string{"--kind", "k", "--payload", `1e999999`}, `{"kind": "k", "payload": 1e999999}`},
	"long queue":            {"queue", []string{"--kind", "k", "--queue", long(201)}, fmt.Sprintf(`{"kind": "k", "queue": %q}`, long(201))},
	"long tenant":           {"tenant", []string{"--kind", "k", "--tenant", long(201)}, fmt.Sprintf(`{"kind": "k", "tenant": %q}`, long(201))},
	"long ordering key":     {"ordering_key", []string{"--kind", "k", "--ordering-key", long(1001)}, fmt.Sprintf(`{"kind": "k", "ordering_key": %q}`, long(1001))},
	"long dedupe key":       {"dedupe_key", []string{"--kind", "k", "--dedupe-key", long(1001)}, fmt.Sprintf(`{"kind": "k", "dedupe_key": %q}`, long(1001))},
	"priority 10":           {"priority", []string{"--kind", "k", "--priority", "10"}, `{"kind": "k", "priority": 10}`},
	"priority -10":          {"priority", []string{"--kind", "k", "--priority", "-10"}, `{"kind": "k", "priority": -10}`},
	"run_at infinity":       {"run_at", nil, `{"kind": "k", "run_at": "infinity"}`},
	"run_at year 10000":     {"run_at", nil, `{"kind": "k", "run_at": "10000-01-01T00:00:00Z"}`},
	"run_at year 10000 UTC": {"run_at", []string{"--kind", "k", "--run-at", "9999-12-31T23:00:00-05:00"}, `{"kind": "k", "run_at": "9999-12-31T23:00:00-05:00"}`},
	"run_at and delay":      {"run_at", []string{"--kind", "k", "--run-at", "2999-01-01T00:00:00Z", "--delay", "1s"}, `{"kind": "k", "run_at": "2999-01-01T00:00:00Z", "delay": "1s"}`},
	"run_at and no delay":   {"run_at", []string{"--kind", "k", "--run-at", "2999-01-01T00:00:00Z", "--delay", "0s"}, `{"kind": "k", "run_at": "2999-01-01T00:00:00Z", "delay": "0s"}`},
	"delay and year 1":      {"run_at", []string{"--kind", "k", "--run-at", "0001-01-01T00:00:00Z", "--delay", "1s"}, `{"kind": "k", "run_at": "0001-01-01T00:00:00Z", "delay": "1s"}`},
	"negative delay":        {"delay", []string{"--kind", "k", "--delay", "-1s"}, `{"kind": "k", "delay": "-1s"}`},
	"max_attempts 32768":    {"max_attempts", []string{"--kind", "k", "--max-attempts", "32768"}, `{"kind": "k", "max_attempts": 32768}`},
	"max_attempts -1":       {"max_attempts", []string{"--kind", "k", "--max-attempts", "-1"}, `{"kind": "k", "max_attempts": -1}`},
	"max_attempts 0":        {"max_attempts", []string{"--kind", "k", "--max-attempts", "0"}, `{"kind": "k", "max_attempts": 0}`},
	"empty payload":         {"payload", []string{"--kind", "k", "--payload", ""}, `{"kind": "k", "payload": }`},
	"empty queue":           {"queue", []string{"--kind", "k", "--queue", ""}, `{"kind": "k", "queue": ""}`},
	"empty tenant":          {"tenant", []string{"--kind", "k", "--tenant", ""}, `{"kind": "k", "tenant": ""}`},
	"empty ordering key":    {"ordering_key", []string{"--kind", "k", "--ordering-key="}, `{"kind": "k", "ordering_key": ""}`},
	"empty dedupe key":      {"dedupe_key", []string{"--kind", "k", "--dedupe-key", ""}, `{"kind": "k", "dedupe_key": ""}`},
	"empty run_at":          {"run_at", nil, `{"kind": "k", "run_at": ""}`},
	"empty delay":           {"delay", nil, `{"kind": "k", "delay": ""}`},
	"NUL in a header":       {"header", []string{"--kind", "k", "--header", "a=\x00"}, `{"kind": "k", "headers": {"a": "\u0000"}}`},
	"headers over 64 KiB":   {"header", []string{"--kind", "k", "--header", "a=" + long(65<<10)}, fmt.Sprintf(`{"kind": "k", "headers": {"a": %q}}`, long(65<<10))},
}

func long(n int) string { return strings.Repeat("x", n) }

var big = `"` + long(1<<20) + `"`

func TestBadJobIsRefusedByItsFlag(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for name, test := range badJobs {
		if test.flags == nil {
			continue
		}
		r := on(db).run(t, append([]string{"enqueue"}, test.flags...)...)
		flag := "--" + strings.ReplaceAll(test.field, "_", "-") + ": "
		if r.code != exitRefused || !strings.Contains(r.stderr, flag) {
			t.Errorf("%s: exit code %d, want %d; want %q in: %.300s", name, r.code, exitRefused, flag, r.stderr)
		}
		if r.stdout != "" {
			t.Errorf("%s: wrote to stdout: %q", name, r.stdout)
		}
	}
	if n := jobCount(t, db); n != 0 {
		t.Errorf("%d jobs were enqueued", n)
	}
}

func TestEnqueueIntoNoSchemaSaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := on(testdb.NewEmpty(t))
	c.run(t, "enqueue", "--kind", "k").want(t, exitFailure, "lockstep migrate status")
	c.stdin = `{"kind": "k"}`
	c.run(t, "enqueue", "--file", "-").want(t, exitFailure, "lockstep migrate status", "nothing was enqueued")
}
