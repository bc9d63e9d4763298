package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

type id struct{ ID int64 }

// TestOneIdempotencyKey: fifty requests at once make one job, and are answered
// alike; the same key with another body is refused.
func TestOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	answers := make(chan answered, 50)
	for range cap(answers) {
		go func() {
			answers <- r.do(t, "POST", "/v1/jobs", `{"kind": "mail", "payload": {"n": 1}}`, "Idempotency-Key", "order 7")
		}()
	}
	created, bodies := 0, map[string]bool{}
	for range cap(answers) {
		a := <-answers
		if a.status == 201 {
			created++
		} else if a.status != 200 {
			t.Errorf("answered %d: %s", a.status, a.body)
		}
		bodies[string(a.body)] = true
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 1 || created != 1 || len(bodies) != 1 {
		t.Errorf("%d jobs, %d answers of 201, %d different answers; want one of each: %v", n, created, len(bodies), bodies)
	}
	p := want[told](t, r.do(t, "POST", "/v1/jobs", `{"kind": "mail", "payload": {"n": 2}}`, "Idempotency-Key", "order 7"), 409)
	if p.Type != "urn:lockstep:LS008" || p.where() != "body.idempotency_key" {
		t.Errorf("another body: %+v", p)
	}
	a := r.do(t, "POST", "/v1/jobs", `{"kind": "mail", "payload": {"n": 1}}`, "Idempotency-Key", "order 7")
	if want[id](t, a, 200); a.header.Get("Lockstep-Outcome") != "repeated" {
		t.Errorf("outcome %q", a.header.Get("Lockstep-Outcome"))
	}
}

// TestC56Digits: numbers keep their digits into the database and out again, for
// a job alone and in a batch.
func TestC56Digits(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	const payload = `[9223372036854775807, 9007199254740993, 0.1, 1.0, 1e400, -0.00000000000000000000012345678901234567890]`
	stored := "[9223372036854775807, 9007199254740993, 0.1, 1.0, 1" + strings.Repeat("0", 400) + ", -0.00000000000000000000012345678901234567890]"
	want[id](t, r.do(t, "POST", "/v1/jobs", `{"kind": "k", "payload": `+payload+`}`), 201)
	want[struct{}](t, answered{200, nil, firstLine(r.do(t, "POST", "/v1/jobs/batch", `[{"kind": "k", "payload": `+payload+`}]`))}, 200)
	want[struct{}](t, answered{200, nil, firstLine(r.do(t, "POST", "/v1/jobs/batch?atomic=true", `{"kind": "k", "payload": `+payload+`}`, "Content-Type", "application/x-ndjson"))}, 200)
	for i := range 3 {
		got := testdb.Value[string](t, r.db, "select payload::text from lockstep.job order by id offset $1 limit 1", i)
		if got != stored {
			t.Errorf("job %d: stored %s", i, got)
		}
		read := r.do(t, "GET", fmt.Sprintf("/v1/jobs/%d", testdb.Value[int64](t, r.db, "select id from lockstep.job order by id offset $1 limit 1", i)), "")
		if !strings.Contains(string(read.body), `"payload":`+strings.ReplaceAll(stored, " ", "")) {
			t.Errorf("job %d: read %s", i, read.body)
		}
	}
}

func firstLine(a answered) []byte {
	line, _, _ := strings.Cut(string(a.body), "\n")
	return []byte(line)
}

// TestC59Size: what is too long is refused with 413, whether the schema's limit
// or the API's, and nothing is written.
func TestC59Size(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	job := func(n int) string { return `{"kind": "k", "payload": "` + strings.Repeat("x", n) + `"}` }
	if p := want[told](t, r.do(t, "POST", "/v1/jobs", job(1<<20)), 413); p.where() != "body.payload" || !strings.Contains(p.Detail, "1048576") {
		t.Errorf("above the schema's limit: %+v", p)
	}
	for _, n := range []int{10 << 20, 40 << 20} {
		if p := want[told](t, r.do(t, "POST", "/v1/jobs", job(n)), 413); p.where() != "body" || !strings.Contains(p.Errors[0].Message, "4194304") {
			t.Errorf("%d bytes: %+v", n, p)
		}
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			a := r.do(t, "POST", "/v1/jobs/batch", strings.TrimSuffix("["+job(n)+"]", map[string]string{"application/x-ndjson": "]"}[kind])[len("["):], "Content-Type", kind)
			if kind == "application/json" {
				a = r.do(t, "POST", "/v1/jobs/batch", "["+job(n)+"]")
			}
			if p := want[told](t, a, 413); p.where() != "item 1" {
				t.Errorf("a batch of %d bytes as %s: %+v", n, kind, p)
			}
		}
	}
	if p := want[told](t, r.do(t, "POST", "/v1/jobs", `{"kind": "k"}`, "Content-Encoding", "gzip"), 415); p.where() != "header.Content-Encoding" {
		t.Errorf("compressed: %+v", p)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 0 {
		t.Errorf("%d jobs were written", n)
	}
}

// TestStrictBodies are refused with the place of what is wrong.
func TestStrictBodies(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	for body, says := range map[string]string{
		`{"kind": "k", "pririty": 1}`:                 `400 body unknown key "pririty"`,
		`{"Kind": "k"}`:                               `400 body unknown key "Kind"`,
		`{"kind": "k", "kind": "l"}`:                  `400 body key "kind" appears twice`,
		`{"kind": "k"} {}`:                            `400 body more than one`,
		`{"kind": "k"`:                                `400 body not valid JSON`,
		`[]`:                                          `400 body not a JSON object`,
		`{}`:                                          `422 body.kind kind must not be empty`,
		`{"kind": 1}`:                                 `422 body.kind kind must be a string`,
		`{"kind": "k", "priority": 10}`:               `422 body.priority priority is 10`,
		`{"kind": "k", "delay": "-1s"}`:               `422 body.delay delay is -1s`,
		`{"kind": "k", "run_at": "never"}`:            `422 body.run_at run_at is "never"`,
		`{"kind": "k", "payload": "\u0000"}`:          `422 body.payload payload holds a zero`,
		`{"kind": "k", "dedupe": "maybe"}`:            `422 body.dedupe dedupe is 'maybe'`,
		`{"kind": "k", "idempotency_key": "another"}`: `422 body.idempotency_key it differs`,
	} {
		a := r.do(t, "POST", "/v1/jobs", body, "Idempotency-Key", "a key")
		var status int
		_, _ = fmt.Sscan(says, &status)
		p := want[told](t, a, status)
		if got := fmt.Sprintf("%d %s %s", a.status, p.where(), p.Detail); !strings.HasPrefix(got, says) {
			t.Errorf("%s: %s, want %s", body, got, says)
		}
		if a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", body, a.header)
		}
	}
	for body, says := range map[string]string{
		`{"queue": "q", "QUEUE": "r"}`: `it has an unknown field "QUEUE"`,
		`{"queue": "q", "queue": "r"}`: "it appears twice",
		`{"queue": "q"} x`:             "something follows",
		`{"queue": `:                   "it is not valid JSON",
		`"queue"`:                      "it must be a JSON object",
	} {
		if p := want[told](t, r.do(t, "POST", "/v1/pause", body), 400); !strings.HasPrefix(p.Errors[0].Message, says) {
			t.Errorf("%s: %+v, want %s", body, p, says)
		}
	}
	if p := want[told](t, r.do(t, "POST", "/v1/pause", `{"queue": 1}`), 422); p.where() != "body.queue" {
		t.Errorf("a number: %+v", p)
	}
	if n := testdb.Value[int](t, r.db, "select (select count(*) from lockstep.job) + (select count(*) from lockstep.pause)"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// TestBatch: each item is answered; good ones are enqueued in their order, or
// all or none.
func TestBatch(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	const items = `{"kind": "a", "ordering_key": "o"}` + "\n\n" + `{"kind": "b", "priority": 99}` + "\n" + `{"kind": ` + "\n" + `{"kind": "d", "ordering_key": "o", "idempotency_key": "i"}` + "\n"
	ndjson := []string{"Content-Type", "application/x-ndjson"}
	all := r.do(t, "POST", "/v1/jobs/batch?atomic=true", items, ndjson...)
	if p := want[told](t, all, 400); !strings.HasPrefix(p.where(), "item 3: body") {
		t.Errorf("atomic: %+v", p)
	}
	all = r.do(t, "POST", "/v1/jobs/batch?atomic=true", `[{"kind": "a"}, {"kind": "b", "priority": 99}]`)
	if p := want[told](t, all, 422); p.where() != "item 2: body.priority" {
		t.Errorf("atomic: %+v", p)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 0 {
		t.Errorf("%d jobs of a refused batch were written", n)
	}
	var got []string
	for _, line := range batchLines(t, r.do(t, "POST", "/v1/jobs/batch", items, ndjson...)) {
		got = append(got, fmt.Sprintf("%d %s %d %t %d", line.Item, line.Outcome, line.Error.Status, line.Done, line.Refused))
	}
	if diff := cmp.Diff([]string{"3  400 false 0", "1 created 0 false 0", "2  422 false 0", "4 created 0 false 0", "0  0 true 2"}, got); diff != "" {
		t.Errorf("the answers differ (-want +got):\n%s", diff)
	}
	if kinds := testdb.Value[string](t, r.db, "select string_agg(kind, '' order by id) from lockstep.job"); kinds != "ad" {
		t.Errorf("enqueued: %s", kinds)
	}
	for body, says := range map[string]string{`[{"kind": "z"}`: "middle", `[{"kind": "z"}] x`: "follows", `{"kind": "z"}`: "array", `[{"kind": "z"}, ]`: "not valid"} {
		lines := strings.TrimSpace(string(r.do(t, "POST", "/v1/jobs/batch", body).body))
		if !strings.Contains(lines, says) || strings.Contains(lines, `"done"`) {
			t.Errorf("%s: %s, want %s", body, lines, says)
		}
	}
}

type batchLine struct {
	Item, Items, Refused int
	ID                   int64
	Outcome              string
	Error                told
	Done                 bool
}

func batchLines(t testing.TB, a answered) (all []batchLine) {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("answered %d: %s", a.status, a.body)
	}
	for line := range strings.Lines(string(a.body)) {
		all = append(all, want[batchLine](t, answered{200, nil, []byte(line)}, 200))
	}
	return all
}

// TestLargeBatch: many parts, as an array and as lines, keep their order.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	const n = 5000
	var list, lines strings.Builder
	for i := range n {
		comma := ","
		if i == 0 {
			comma = ""
		}
		fmt.Fprintf(&list, `%s{"kind": "k", "ordering_key": "list", "payload": %d}`, comma, i)
		fmt.Fprintf(&lines, "{\"kind\": \"k\", \"ordering_key\": \"lines\", \"payload\": %d}\n", i)
	}
	batchLines(t, r.do(t, "POST", "/v1/jobs/batch", "["+list.String()+"]"))
	all := batchLines(t, r.do(t, "POST", "/v1/jobs/batch", lines.String(), "Content-Type", "application/jsonl"))
	if last := all[len(all)-1]; len(all) != n+1 || !last.Done || last.Items != n {
		t.Errorf("%d lines, the last one %+v", len(all), last)
	}
	for _, key := range []string{"list", "lines"} {
		ordered := testdb.Value[bool](t, r.db, `select bool_and(payload::int = place - 1) and count(*) = 5000
			from (select payload, row_number() over (order by lane_turn) as place from lockstep.job where ordering_key = $1) j`, key)
		if !ordered {
			t.Errorf("%s: not in order", key)
		}
	}
}
