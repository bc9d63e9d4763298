package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestEnqueueFileKeepsTheOrderAndEveryDigit(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	path := write(t, "jobs.ndjson", "\uFEFF"+`{"kind": "a", "ordering_key": "k", "payload": {"n": 9223372036854775807, "e": 1.10}}`+"\r\n"+
		"\n  \n"+
		`{"kind": "b", "ordering_key": "k", "payload": null, "tenant": null, "headers": {"h": "\ud83d\ude00"}}`+"\n"+
		`{"kind": "c", "ordering_key": "k", "delay": "0s", "queue": "default", "priority": 9}`)
	r := on(db).run(t, "enqueue", "--file", path).want(t, exitOK, `"jobs":3`)

	ids := strings.Fields(r.stdout)
	got := testdb.Value[string](t, db, `select string_agg(concat_ws('|', id, kind, payload::text, headers ->> 'h'), ' ' order by lane_turn)
		from lockstep.job`)
	want := fmt.Sprintf(`%s|a|{"e": 1.10, "n": 9223372036854775807} %s|b|null|😀 %s|c|{}`, ids[0], ids[1], ids[2])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the jobs differ (-want +got):\n%s", diff)
	}
}

func TestBadLineIsNamedAndNothingIsEnqueued(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	for name, test := range badJobs {
		c := on(db)
		c.stdin = `{"kind": "good"}` + "\n\n" + test.line + "\n" + `{"kind": "good"}`
		r := c.run(t, "enqueue", "--file", "-")
		for _, says := range []string{"standard input:3: ", test.field, "nothing was enqueued"} {
			if r.code != exitRefused || !strings.Contains(r.stderr, says) {
				t.Errorf("%s: exit code %d, want %d; want %q in: %.300s", name, r.code, exitRefused, says, r.stderr)
			}
		}
		if r.stdout != "" {
			t.Errorf("%s: wrote to stdout: %q", name, r.stdout)
		}
	}
	if n := jobCount(t, db); n != 0 {
		t.Errorf("%d jobs were enqueued", n)
	}
}

// manyLines are n good jobs, of which the one on line bad is not.
func manyLines(n, bad int) string {
	var lines strings.Builder
	for i := 1; i <= n; i++ {
		priority := 0
		if i == bad {
			priority = 10
		}
		fmt.Fprintf(&lines, "{\"kind\": \"k\", \"priority\": %d}\n", priority)
	}
	return lines.String()
}

func TestEnqueueFileIsAllOrNothingOverParts(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	c.stdin = manyLines(partLines+20, partLines+10)
	r := c.run(t, "enqueue", "--file", "-").want(t, exitRefused, fmt.Sprintf("standard input:%d: priority", partLines+10), "nothing was enqueued")
	if n := jobCount(t, db); n != 0 || r.stdout != "" {
		t.Errorf("%d jobs were enqueued, %d bytes of ids printed", n, len(r.stdout))
	}
	c.stdin = manyLines(partLines+20, 0)
	r = c.run(t, "enqueue", "--file", "-").want(t, exitOK)
	if n, ids := jobCount(t, db), strings.Count(r.stdout, "\n"); n != partLines+20 || ids != n {
		t.Errorf("%d jobs and %d ids, want %d", n, ids, partLines+20)
	}
}

func TestEnqueueFileInPartsSaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	c.stdin = manyLines(partLines+20, partLines+10)
	r := c.run(t, "enqueue", "--file", "-", "--in-parts").want(t, exitRefused,
		fmt.Sprintf("standard input:%d: priority", partLines+10), fmt.Sprintf("lines 1 to %d are enqueued", partLines))
	if n, ids := jobCount(t, db), strings.Count(r.stdout, "\n"); n != partLines || ids != n {
		t.Errorf("%d jobs and %d ids, want %d", n, ids, partLines)
	}
}

func TestEnqueueFileMarksTakenDedupeKeys(t *testing.T) {
	t.Parallel()
	c := on(testdb.New(t))
	c.stdin = `{"kind": "k", "dedupe_key": "d"}`
	first := strings.TrimSpace(c.run(t, "enqueue", "--file", "-").want(t, exitOK).stdout)
	c.stdin += "\n" + `{"kind": "k"}`
	second := c.run(t, "enqueue", "--file", "-").want(t, exitOK, `"jobs":1`, `"already_there":1`)
	if !strings.HasPrefix(second.stdout, first+"\texisting\n") {
		t.Errorf("stdout = %q", second.stdout)
	}
}

func TestEmptyFileIsNoError(t *testing.T) {
	t.Parallel()
	r := on(testdb.New(t)).run(t, "enqueue", "--file", write(t, "empty", "")).want(t, exitOK, `"jobs":0`)
	if r.stdout != "" {
		t.Errorf("stdout = %q", r.stdout)
	}
}

func TestTooLongALineIsNamed(t *testing.T) {
	t.Parallel()
	lines := newLineReader(io.MultiReader(strings.NewReader("{\"kind\": \"k\"}\n"), endless{}))
	if _, err := lines.part(); err == nil || err.Error() != "line 2: longer than 64 MiB" {
		t.Errorf("err = %v", err)
	}
}

// endless is a line that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestPartsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	line := `{"kind": "k", "payload": ` + big + "}\n"
	lines := newLineReader(strings.NewReader(strings.Repeat(line, 40)))
	part, err := lines.part()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(part.jobs); n < 10 || n > 17 {
		t.Errorf("the first part has %d jobs of 1 MiB, want about 16", n)
	}
}

func TestInterruptedFileEnqueuesNothing(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := on(db)
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	c.stdin = manyLines(2*partLines, 0)
	// The interrupt comes while the server checks the second part.
	db.Exec(t, `create function public.hang() returns trigger language plpgsql as $$
		begin perform pg_advisory_lock_shared(42); return null; end $$;
		create trigger hang after insert on lockstep.job for each statement execute function public.hang()`)
	db.Exec(t, "select pg_advisory_lock(42)")
	done := make(chan result)
	go func() { done <- c.run(t, "enqueue", "--file", "-") }()
	for !testdb.Value[bool](t, db, "select exists (select from pg_locks where locktype = 'advisory' and objid = 42 and not granted)") {
		if t.Context().Err() != nil {
			t.Fatal("the insert was never reached")
		}
	}
	cancel()
	(<-done).want(t, exitInterrupted, "nothing was enqueued")
	if n := jobCount(t, db); n != 0 {
		t.Errorf("%d jobs were enqueued", n)
	}
}
