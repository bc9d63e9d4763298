package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// TestC98WhoMayDoWhat: tokens, a read-only one, hosts, and pages of other
// origins.
func TestC98WhoMayDoWhat(t *testing.T) {
	t.Parallel()
	open, locked, readOnly := newAPI(t, web.APIConfig{Hosts: []string{"jobs.internal"}}), newAPI(t, web.APIConfig{Token: "may write", ReadToken: "may read"}), newAPI(t, web.APIConfig{ReadToken: "may read"})
	const job = `{"kind": "k"}`
	for _, c := range []struct {
		name           string
		rig            *apiRig
		method, path   string
		headers        []string
		status         int
		whereItIsWrong string
	}{
		{"no token", locked, "GET", "/v1/jobs", nil, 401, "header.Authorization"},
		{"no token", locked, "GET", "/openapi.json", nil, 401, "header.Authorization"},
		{"no token", locked, "GET", "/v1/nothing", nil, 401, "header.Authorization"},
		{"no token", locked, "GET", "/v1//jobs", nil, 401, "header.Authorization"},
		{"an empty one", locked, "GET", "/v1/jobs", []string{"Authorization", "Bearer "}, 401, "header.Authorization"},
		{"a wrong one", locked, "POST", "/v1/jobs", []string{"Authorization", "Bearer may writ"}, 401, "header.Authorization"},
		{"another scheme", locked, "GET", "/v1/jobs", []string{"Authorization", "Basic bWF5IHdyaXRlOg=="}, 401, "header.Authorization"},
		{"one that reads", locked, "GET", "/v1/jobs", []string{"Authorization", "Bearer may read"}, 200, ""},
		{"one that reads", locked, "POST", "/v1/jobs", []string{"Authorization", "Bearer may read"}, 403, "header.Authorization"},
		{"one that writes", locked, "GET", "/v1/jobs", []string{"Authorization", "Bearer may write"}, 200, ""},
		{"one that writes", locked, "POST", "/v1/jobs", []string{"Authorization", "Bearer may write"}, 201, ""},
		{"the token does not help a page", locked, "POST", "/v1/jobs", []string{"Authorization", "Bearer may write", "Origin", "https://evil.example"}, 403, "header.Origin"},
		{"read only", readOnly, "GET", "/v1/jobs", []string{"Authorization", "Bearer may read"}, 200, ""},
		{"read only", readOnly, "POST", "/v1/jobs", []string{"Authorization", "Bearer may read"}, 403, "header.Authorization"},
		{"read only", readOnly, "POST", "/v1/jobs", []string{"Authorization", "Bearer "}, 401, "header.Authorization"},
		{"another page", open, "POST", "/v1/jobs", []string{"Origin", "https://evil.example"}, 403, "header.Origin"},
		{"another page", open, "POST", "/v1/jobs", []string{"Sec-Fetch-Site", "cross-site"}, 403, "header.Origin"},
		{"another page", open, "POST", "/v1/jobs/1/cancel", []string{"Sec-Fetch-Site", "same-site"}, 403, "header.Origin"},
		{"this page", open, "POST", "/v1/jobs", []string{"Sec-Fetch-Site", "same-origin"}, 201, ""},
		{"a form", open, "POST", "/v1/jobs", []string{"Content-Type", "text/plain"}, 415, "header.Content-Type"},
		{"a form", open, "POST", "/v1/jobs/batch", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "header.Content-Type"},
		{"a name that resolves here", open, "GET", "/v1/jobs", []string{"Host", "evil.example"}, 403, "header.Host"},
		{"a name that resolves here", open, "GET", "/v1/jobs", []string{"Host", "127.0.0.1.evil.example:80"}, 403, "header.Host"},
		{"a name that is known", open, "GET", "/v1/jobs", []string{"Host", "jobs.internal"}, 200, ""},
		{"a path that is not clean", open, "GET", "/v1//jobs", nil, 404, "path"},
		{"a path that is not clean", open, "POST", "/v1/./jobs", nil, 404, "path"},
		{"a path that is not clean", open, "POST", "/v1/dead/../jobs", nil, 404, "path"},
		{"a path that is not clean", open, "POST", "/v1/jobs/", nil, 404, "path"},
		{"a path that is not clean", open, "DELETE", "//v1/jobs", nil, 404, "path"},
		{"loopback", open, "GET", "/v1/jobs", []string{"Host", "localhost:8321"}, 200, ""},
		{"loopback", open, "GET", "/v1/jobs", []string{"Host", "[::1]:8321"}, 200, ""},
	} {
		body := ""
		if c.method == "POST" {
			body = job
		}
		a := c.rig.do(t, c.method, c.path, body, c.headers...)
		if a.status != c.status || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s %s %q: answered %d, want %d: %s", c.name, c.method, c.path, c.headers, a.status, c.status, a.body)
		} else if c.status >= 400 {
			if p := want[told](t, a, c.status); p.where() != c.whereItIsWrong {
				t.Errorf("%s: %+v, want %s", c.name, p, c.whereItIsWrong)
			}
		}
	}
	for rig, n := range map[*apiRig]int{open: 1, locked: 1, readOnly: 0} {
		if got := testdb.Value[int](t, rig.db, "select count(*) from lockstep.job"); got != n {
			t.Errorf("%d jobs, want %d", got, n)
		}
	}
}

// TestErrorsTellNoSecrets: neither what a payload holds nor a token, also when
// the database fails; and that is a problem too.
func TestErrorsTellNoSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newAPI(t, web.APIConfig{Token: "MARKER token", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	auth := []string{"Authorization", "Bearer MARKER token"}
	for body, status := range map[string]int{
		`{"kind": "k", "payload": {"MARKER": "\u0000"}}`: 422, `{"payload": "MARKER"}`: 422, `{"kind": "k", "payload": "MARKER`: 400, `MARKER`: 400,
		`{"kind": "k", "payload": "MARKER", "headers": {"a": 1}}`: 422, `{"kind": "k", "payload": "MARKER"} x`: 400,
		`{"kind": "k", "payload": "` + strings.Repeat("MARKER", 200_000) + `"}`: 413,
	} {
		a := r.do(t, "POST", "/v1/jobs", body, auth...)
		if a.status != status || bytes.Contains(a.body, []byte("MARKER")) {
			t.Errorf("%.60s: answered %d: %s", body, a.status, a.body)
		}
	}
	want[told](t, r.do(t, "POST", "/v1/jobs", "{}", "Authorization", "Bearer MARKER"), 401)
	r.db.Exec(t, "alter table lockstep.job add constraint no_marker check (payload::text !~ 'MARKER')")
	a := r.do(t, "POST", "/v1/jobs", `{"kind": "k", "payload": "MARKER"}`, auth...)
	if p := want[told](t, a, 500); !strings.Contains(p.Detail, "23514") || bytes.Contains(a.body, []byte("MARKER")) {
		t.Errorf("%s", a.body)
	}
	if text := log.String(); strings.Contains(text, "MARKER") || !strings.Contains(text, "sqlstate=23514") {
		t.Errorf("the log: %s", text)
	}
}

// TestAPIWithoutDatabase: 503, and what to do.
func TestAPIWithoutDatabase(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:1/away?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := &apiRig{Server: httptest.NewServer(web.NewAPI(web.APIConfig{
		Pool: pool, Drain: func(context.Context) (web.Drained, error) { return web.Drained{Completed: 3}, nil },
	}))}
	t.Cleanup(r.Close)
	if d := want[web.Drained](t, r.do(t, "POST", "/v1/drain?max_time=1s", ""), 200); d.Completed != 3 {
		t.Errorf("%+v", d)
	}
	for _, path := range []string{"/v1/jobs", "/v1/jobs/batch"} {
		a := r.do(t, "POST", path, `{"kind": "k"}`, "Content-Type", map[string]string{"/v1/jobs": "application/json", "/v1/jobs/batch": "application/jsonl"}[path])
		if p := want[told](t, a, 503); !strings.Contains(p.Detail, "can't be reached") {
			t.Errorf("%s: %+v", path, p)
		}
	}
}
