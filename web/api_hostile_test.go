package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// TestC59EndlessBodies: what would be 300 MB is refused when its length is told,
// or the limit is passed, and is not read into memory. It is not parallel, as it
// measures what the process allocates.
func TestC59EndlessBodies(t *testing.T) {
	r := newAPI(t, web.APIConfig{})
	const size, most = 300 << 20, 64 << 20
	for _, c := range []struct {
		name, path, kind, length string
		sent                     int // at most
	}{
		{"a body whose length is told", "/v1/jobs", "application/json", fmt.Sprintf("Content-Length: %d", size), 0},
		{"a body in chunks", "/v1/jobs", "application/json", "Transfer-Encoding: chunked", most},
		{"a whole batch whose length is told", "/v1/jobs/batch?atomic=true", "application/json", fmt.Sprintf("Content-Length: %d", size), 0},
		{"a line of a batch", "/v1/jobs/batch", "application/x-ndjson", fmt.Sprintf("Content-Length: %d", size), most},
		{"a line of a batch in chunks", "/v1/jobs/batch", "application/x-ndjson", "Transfer-Encoding: chunked", most},
		{"an item of a whole batch", "/v1/jobs/batch?atomic=true", "application/json", "Transfer-Encoding: chunked", most},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, sent := r.endless(t, c.path, c.kind, c.length, size, c.sent == 0)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; status != 413 || sent > c.sent || got > most {
			t.Errorf("%s: answered %d, after %d bytes; %d were allocated", c.name, status, sent, got)
		}
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 0 {
		t.Errorf("%d jobs were written", n)
	}
}

// endless sends a job whose payload goes on, until it is answered; if silent,
// only the head of the request. It tells the status, and how much was sent.
func (r *apiRig) endless(t *testing.T, path, kind, length string, size int, silent bool) (status, sent int) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s\r\n\r\n", path, kind, length)
	counted := make(chan int, 1)
	go func() {
		var err error
		n, part := 0, []byte(`[{"kind": "k", "payload": "`)
		if kind != "application/json" || !strings.Contains(path, "batch") {
			part = part[1:]
		}
		for ; n < size && !silent; part = bytes.Repeat([]byte("x"), 64<<10) {
			if strings.Contains(length, "chunked") {
				_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(part), part)
			} else {
				_, err = conn.Write(part)
			}
			if err != nil {
				break
			}
			n += len(part)
		}
		counted <- n
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	return response.StatusCode, <-counted
}

// TestStrictRequests: a query, a header and a text that net/url, net/http and
// encoding/json would mend, or take one of two of, are refused.
func TestStrictRequests(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	const job = `{"kind": "k"}`
	for _, c := range []struct{ method, path, body, says string }{
		{"GET", "/v1/jobs?queue=a&queue=b", "", "400 query.queue it appears twice"},
		{"GET", "/v1/jobs?queue=%zz", "", "400 query it is not a query"},
		{"GET", "/v1/jobs?queue=a;kind=b", "", "400 query it is not a query"},
		{"POST", "/v1/jobs/batch?x=1;atomic=true", "[" + job + "]", "400 query it is not a query"},
		{"POST", "/v1/jobs/batch?atomic=true&atomic=false", "[" + job + "]", "400 query.atomic it appears twice"},
		{"POST", "/v1/jobs/batch?atomic=", "[" + job + "]", "422 query.atomic it is empty; leave it out"},
		{"GET", "/v1/jobs?queue=&kind=k", "", "422 query.queue it is empty"},
		{"GET", "/v1/dead?error", "", "422 query.error it is empty"},
		{"GET", "/v1/jobs/x", "", "422 path.id invalid integer"},
		{"GET", "/v1/jobs?limit=0", "", "422 query.limit expected number >= 1"},
		{"POST", "/v1/pause", `{"queue": "\ud800"}`, "422 body.queue queue holds a lone surrogate"},
		{"POST", "/v1/pause", "{\"queue\": \"a\xff\"}", "422 body.queue queue is not valid UTF-8"},
		{"POST", "/v1/pause", `{"queue": "", "kind": "k"}`, "422 body.queue queue must not be empty"},
		{"POST", "/v1/resume", `{"queue": "q", "tenant": ""}`, "422 body.tenant tenant must not be empty; leave it out"},
		{"POST", "/v1/dead/replay", `{"queue": "q", "kind": ""}`, "422 body.kind kind must not be empty"},
		{"POST", "/v1/dead/replay", `{"queue": "q", "died_before": "0001-01-01T00:00:00Z"}`, "422 body.died_before no letter"},
		{"POST", "/v1/dead/replay", `{"died_from": "soon"}`, `422 body.died_from died_from is "soon"; it must be a time`},
		{"POST", "/v1/dead/replay", `{"ids": ["1"]}`, "422 body.ids ids is or holds a string; it must be a list, each of it a whole number of 64 bits"},
		{"POST", "/v1/jobs/1/reschedule", `{"run_at": 5}`, "422 body.run_at run_at is 5; it must be a time"},
		{"POST", "/v1/dead/replay", `{"ids": [null]}`, "422 body.ids ids is or holds a null; it must be a list, each of it a whole number of 64 bits"},
		{"POST", "/v1/dead/replay", `{"ids": [1, null]}`, "422 body.ids ids is or holds a null"},
		{"POST", "/v1/dead/replay", `{"ids": null, "all": true}`, "422 body.ids ids is or holds a null"},
		{"POST", "/v1/dead/replay", `{"kind": "k", "all": null}`, "422 body.all all is or holds a null; it must be true or false"},
		{"POST", "/v1/queues", `{"name": null, "on_dead": "block"}`, "422 body.name name is or holds a null; it must be a string"},
		{"POST", "/v1/lanes/unblock", `{"ordering_key": null}`, "422 body.ordering_key ordering_key is or holds a null"},
		{"POST", "/v1/lanes/skip-head", `{}`, "422 body.ordering_key ordering_key must not be empty"},
		{"POST", "/v1/lanes/skip-head", `{"ordering_key": "a", "queue": ""}`, "422 body.queue queue must not be empty"},
		{"POST", "/v1/jobs/1/priority", `{"priority": null}`, "422 body.priority it is missing"},
		{"POST", "/v1/jobs/1/reschedule", `{"run_at": null, "delay": null}`, "422 body.run_at one of run_at and delay must be given"},
		{"POST", "/v1/jobs/1/reschedule", `{"run_at": "2030-01-31T12:00:00Z", "delay": "0s"}`, "422 body.run_at one of run_at and delay must be given"},
		{"POST", "/v1/jobs", `{"kind": "k", "run_at": "2030-01-31T12:00:00Z", "delay": "0s"}`, "422 body.run_at run_at is given together with delay"},
		{"POST", "/v1/jobs", `{"kind": null}`, "422 body.kind kind must not be empty"},
		{"POST", "/v1/jobs", `{"kind": ""}`, "422 body.kind kind must not be empty"},
		{"POST", "/v1/jobs", `{"kind": "k", "queue": ""}`, "422 body.queue queue must not be empty"},
		{"POST", "/v1/jobs", `{"kind": "k", "headers": {"a": null}}`, "422 body.headers headers must be an object of strings"},
		{"POST", "/v1/jobs", `{"kind": "k", "headers": {"a": "1", "a": "2"}}`, `422 body.headers headers holds "a" twice`},
		{"POST", "/v1/jobs", `{"` + strings.Repeat("y", 10_000) + `": 1}`, "400 body unknown key"},
	} {
		a := r.do(t, c.method, c.path, c.body)
		var status int
		_, _ = fmt.Sscan(c.says, &status)
		p := want[told](t, a, status)
		if got := fmt.Sprintf("%d %s %s", a.status, p.where(), p.Errors[0].Message); !strings.HasPrefix(got, c.says) || !strings.Contains(p.Detail, p.Errors[0].Message) || len(a.body) > 2000 {
			t.Errorf("%s %s %.60s: %s, want %s", c.method, c.path, c.body, a.body, c.says)
		}
	}
	for _, c := range []struct {
		path    string
		headers http.Header
		says    string
	}{
		{"/v1/jobs", http.Header{"Idempotency-Key": {""}}, "422 header.Idempotency-Key"},
		{"/v1/jobs", http.Header{"Idempotency-Key": {"a", "b"}}, "400 header.Idempotency-Key"},
		{"/v1/jobs/batch", http.Header{"Idempotency-Key": {"a"}}, "422 header.Idempotency-Key"},
		{"/v1/jobs", http.Header{"Content-Encoding": {"identity", "gzip"}}, "400 header.Content-Encoding"},
		{"/v1/jobs", http.Header{"Content-Type": {"application/json", "text/plain"}}, "400 header.Content-Type"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", r.URL+c.path, strings.NewReader(job))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = c.headers
		if c.headers["Content-Type"] == nil {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := r.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if p := want[told](t, answered{response.StatusCode, nil, body}, response.StatusCode); fmt.Sprintf("%d %s", response.StatusCode, p.where()) != c.says {
			t.Errorf("%s %v: %s, want %s", c.path, c.headers, body, c.says)
		}
	}
	if n := testdb.Value[int](t, r.db, "select (select count(*) from lockstep.job) + (select count(*) from lockstep.pause) + (select count(*) from lockstep.replay_run)"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// TestNullForNone: a body may give as null what it may leave out, and the
// description says so of exactly what is taken.
func TestNullForNone(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	want[id](t, r.do(t, "POST", "/v1/jobs", `{"kind": "k", "delay": "1h"}`), 201) // job 1
	spec := want[struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type any
					Enum []any
				}
			}
		}
	}](t, r.do(t, "GET", "/openapi.json", ""), 200)
	for _, c := range []struct {
		schema, path string
		rest         map[string]any // which is enough without the field that is null
	}{
		{"NewJob", "/v1/jobs", map[string]any{"kind": "k"}},
		{"PauseBody", "/v1/pause", map[string]any{"queue": "q", "kind": "k"}},
		{"ResumeBody", "/v1/resume", map[string]any{"queue": "q", "kind": "k"}},
		{"StartReplayBody", "/v1/dead/replay", map[string]any{"queue": "q", "kind": "k"}},
		{"PolicyBody", "/v1/queues", map[string]any{"name": "q"}},
		{"LaneBody", "/v1/lanes/unblock", map[string]any{"ordering_key": "a"}},
		{"PriorityBody", "/v1/jobs/1/priority", map[string]any{}},
	} {
		for name, field := range spec.Components.Schemas[c.schema].Properties {
			body := maps.Clone(c.rest)
			body[name] = nil
			text, _ := json.Marshal(body)
			a := r.do(t, "POST", c.path, string(text))
			kinds, several := field.Type.([]any)
			nullable := several && slices.Contains(kinds, any("null")) || field.Type == nil
			if taken := a.status != 422; taken != nullable {
				t.Errorf("%s %s: answered %d, and the description says %v: %s", c.path, text, a.status, field.Type, a.body)
			} else if !taken && want[told](t, a, 422).where() != "body."+name {
				t.Errorf("%s %s: %s", c.path, text, a.body)
			}
			if nullable && field.Enum != nil && !slices.Contains(field.Enum, nil) {
				t.Errorf("%s: null is none of %v", name, field.Enum)
			}
		}
	}
	want[id](t, r.do(t, "POST", "/v1/jobs/1/reschedule", `{"run_at": null, "delay": "0s"}`), 200)
}

// TestLenientSpelling: the names of types, schemes and encodings have no case.
func TestLenientSpelling(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{Token: "may write"})
	auth := []string{"Authorization", "bearer may write"}
	want[id](t, r.do(t, "POST", "/v1/jobs", `{"kind": "k"}`, append(auth, "Content-Encoding", "Identity")...), 201)
	lines := batchLines(t, r.do(t, "POST", "/v1/jobs/batch", `[{"kind": "k"}, {"kind": "k"}]`, append(auth, "Content-Type", "Application/JSON; charset=utf-8")...))
	if last := lines[len(lines)-1]; !last.Done || last.Items != 2 || last.Refused != 0 {
		t.Errorf("%+v", lines)
	}
	lines = batchLines(t, r.do(t, "POST", "/v1/jobs/batch", "\u00a0{\"kind\": \"k\"}\n", append(auth, "Content-Type", "application/jsonl")...))
	if lines[0].Error.Status != 400 {
		t.Errorf("a space that is none of JSON's: %+v", lines)
	}
}

// cutConn is a connection to the database that can break like one to a server
// that is killed.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c cutConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if c.cut.Load() {
		return 0, io.EOF
	}
	return n, err
}

// TestDatabaseLost in the middle of a statement, or one that only reads, is 503.
func TestDatabaseLost(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	var cut atomic.Bool
	conns := make(chan net.Conn, 100)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			conns <- conn
		}
		return cutConn{conn, &cut}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &apiRig{Server: httptest.NewServer(web.NewAPI(web.APIConfig{Pool: pool, Logger: slog.New(slog.DiscardHandler)})), db: db}
	t.Cleanup(r.Close)
	locked := db.Conn(t)
	if _, err := locked.Exec(t.Context(), "begin; lock table lockstep.job in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answered)
	go func() { answers <- r.do(t, "GET", "/v1/jobs", "") }()
	go func() { answers <- r.do(t, "POST", "/v1/jobs/batch?atomic=true", `[{"kind": "k"}]`) }()
	until(t, func() bool {
		return testdb.Value[bool](t, db, "select count(*) = 2 from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())")
	})
	cut.Store(true)
	for len(conns) > 0 {
		if err := (<-conns).Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	for range 2 {
		if a := <-answers; a.header.Get("Retry-After") == "" || !strings.Contains(want[told](t, a, 503).Detail, "can't be reached") {
			t.Errorf("%s", a.body)
		}
	}
	cut.Store(false)
	if _, err := locked.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "alter database "+db.Name+" set default_transaction_read_only = on")
	pool.Reset()
	for path, kind := range map[string]string{"/v1/jobs": "application/json", "/v1/jobs/batch": "application/jsonl"} {
		if a := r.do(t, "POST", path, `{"kind": "k"}`, "Content-Type", kind); !strings.Contains(want[told](t, a, 503).Detail, "only reads") {
			t.Errorf("%s", a.body)
		}
	}
	want[struct{}](t, r.do(t, "GET", "/v1/jobs", ""), 200)
}
