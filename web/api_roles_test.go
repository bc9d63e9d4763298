package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// newAPIAs is an API over a database role that has what grants give it, beside
// one that may do everything.
func newAPIAs(t *testing.T, grants ...string) (limited, full *apiRig) {
	t.Helper()
	full = newAPI(t, web.APIConfig{})
	role := full.db.Name + "_api"
	name := pgx.Identifier{role}.Sanitize()
	full.db.Exec(t, "create role "+name)
	t.Cleanup(func() { full.db.Exec(t, "drop owned by "+name+" cascade; drop role "+name) })
	for _, grant := range grants {
		full.db.Exec(t, "select lockstep."+strings.ReplaceAll(grant, "ROLE", "'"+role+"'"))
	}
	config, err := pgxpool.ParseConfig(full.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role "+name)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	limited = &apiRig{Server: httptest.NewServer(web.NewAPI(web.APIConfig{Pool: pool, Logger: slog.New(slog.DiscardHandler)})), db: full.db}
	t.Cleanup(limited.Close)
	return limited, full
}

// posts are good bodies for the routes that take one; "": none.
var posts = map[string]string{
	"/v1/jobs": `{"kind": "k", "ordering_key": "new", "dedupe_key": "d", "idempotency_key": "i"}`, "/v1/jobs/batch": `[{"kind": "k", "dedupe_key": "e", "idempotency_key": "j"}]`,
	"/v1/jobs/{id}/cancel": "", "/v1/jobs/{id}/retry": "", "/v1/jobs/{id}/reschedule": `{"delay": "2h"}`, "/v1/jobs/{id}/priority": `{"priority": 1}`,
	"/v1/dead/{id}/replay": "", "/v1/dead/{id}/discard": "", "/v1/dead/replay": `{"all": true}`, "/v1/replays/{id}/cancel": "",
	"/v1/queues": `{"name": "q", "on_dead": "skip"}`, "/v1/pause": `{"kind": "other"}`, "/v1/resume": `{"kind": "other"}`,
	"/v1/lanes/unblock": `{"ordering_key": "blocked"}`, "/v1/lanes/skip-head": `{"ordering_key": "o"}`,
}

// fill makes a job for a route to be about, or a dead letter, or a replay.
func (r *apiRig) fill(t *testing.T, path string) string {
	t.Helper()
	made := map[string]string{
		"/v1/dead/{id}":           "select max(id) from lockstep.dead_job",
		"/v1/replays/{id}/cancel": "select lockstep.start_replay()",
		"":                        "select id from lockstep.enqueue('k', delay => '1 hour')",
	}
	statement := made[""]
	for prefix, other := range made {
		if prefix != "" && strings.HasPrefix(path, prefix) {
			statement = other
		}
	}
	switch {
	case path == "/v1/lanes/unblock":
		r.db.Exec(t, "select lockstep.set_queue('default', on_dead => 'block'), lockstep.enqueue('blocker', ordering_key => 'blocked')")
		r.kill(t, "blocker")
	case path == "/v1/lanes/skip-head":
		r.db.Exec(t, "select lockstep.enqueue('k', ordering_key => 'o')")
	case strings.HasPrefix(path, "/v1/dead/{id}"):
		r.db.Exec(t, "select lockstep.enqueue('doomed')")
		r.kill(t, "doomed")
	}
	if !strings.Contains(path, "{id}") {
		return path
	}
	return strings.ReplaceAll(path, "{id}", fmt.Sprint(testdb.Value[int64](t, r.db, statement)))
}

// routes calls do with every route there is.
func (r *apiRig) routes(t *testing.T, do func(method, path, body string)) {
	t.Helper()
	spec := want[struct{ Paths map[string]map[string]any }](t, r.do(t, "GET", "/openapi.json", ""), 200)
	for path, methods := range spec.Paths {
		for method := range methods {
			body, known := posts[path]
			if method == "post" && !known {
				t.Errorf("%s has no body here", path)
			} else if method == "get" {
				body = ""
			}
			if strings.HasSuffix(path, "/wait") {
				path += "?timeout=0"
			}
			do(strings.ToUpper(method), path, body)
		}
	}
}

// TestOperatorsRole: a role that may enqueue and operate may use every route.
func TestOperatorsRole(t *testing.T) {
	t.Parallel()
	limited, full := newAPIAs(t, "grant_operator(ROLE)", "grant_producer(ROLE)")
	limited.routes(t, func(method, path, body string) {
		if a := limited.do(t, method, full.fill(t, path), body); a.status >= 300 || strings.Contains(string(a.body), `"error":{`) {
			t.Errorf("%s %s: answered %d: %s", method, path, a.status, a.body)
		}
	})
	if j := want[seen](t, limited.do(t, "GET", full.fill(t, "/v1/jobs/{id}"), ""), 200); string(j.Payload) != "{}" {
		t.Errorf("%+v", j)
	}
}

// TestReadersRole: a role that reads is refused the rest with what it lacks, and
// is not shown what it may not see.
func TestReadersRole(t *testing.T) {
	t.Parallel()
	limited, full := newAPIAs(t, "grant_reader(ROLE)")
	limited.routes(t, func(method, path, body string) {
		a := limited.do(t, method, full.fill(t, path), body)
		if method == "GET" {
			if a.status >= 300 || strings.Contains(string(a.body), `"payload"`) || strings.Contains(string(a.body), `"headers"`) {
				t.Errorf("%s: answered %d: %s", path, a.status, a.body)
			}
			return
		}
		part := "operator"
		if strings.HasPrefix(path, "/v1/jobs") && !strings.Contains(path, "{id}") {
			part = "producer"
		}
		if p := want[told](t, a, 403); !strings.Contains(p.Detail, "permission denied") || !strings.Contains(p.Detail, "lockstep grant "+part) {
			t.Errorf("%s: %+v", path, p)
		}
	})
	job := full.fill(t, "/v1/jobs/{id}")
	want[told](t, limited.do(t, "GET", strings.Replace(job, "jobs", "dead", 1), ""), 409)
	full.db.Exec(t, "select lockstep.grant_reader($1, payload => true)", full.db.Name+"_api")
	if j := want[seen](t, limited.do(t, "GET", job, ""), 200); string(j.Payload) != "{}" {
		t.Errorf("with payload: %+v", j)
	}
}

// TestNobodysRole is refused everything with what it lacks.
func TestNobodysRole(t *testing.T) {
	t.Parallel()
	limited, full := newAPIAs(t)
	limited.routes(t, func(method, path, body string) {
		var p told
		if a := limited.do(t, method, full.fill(t, path), body); json.Unmarshal(a.body, &p) != nil || a.status != 403 || !strings.Contains(p.Detail, "lockstep grant") {
			t.Errorf("%s %s: answered %d: %s", method, path, a.status, a.body)
		}
	})
}
