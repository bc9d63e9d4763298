package web

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

var (
	fuzzLength = flag.Duration("fuzzlength", 3*time.Second, "how long TestRandomRequests sends requests")
	fuzzSeed   = flag.Uint64("fuzzseed", 0, "seed of TestRandomRequests; 0: draw one")
)

// fuzzer sends random requests that it builds from the API's own description.
type fuzzer struct {
	*rand.Rand
	t      *testing.T
	api    *API
	db     *testdb.DB
	server *httptest.Server
	paths  []string
	routes map[string]int // good answers, by route
}

// TestRandomRequests: to every route, good ones and bad ones. No answer is a
// failure of ours, all are as described, and what is refused writes nothing.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	seed := *fuzzSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-fuzzseed %d", seed)
	db := testdb.New(t)
	api := NewAPI(APIConfig{
		Pool: db.Pool(t), Logger: slog.New(slog.DiscardHandler), MaxBody: 8 << 10,
		Drain: func(context.Context) (Drained, error) { return Drained{}, nil },
	})
	f := &fuzzer{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, api: api, db: db, server: httptest.NewServer(api), routes: map[string]int{}}
	t.Cleanup(f.server.Close)
	for path := range api.huma.OpenAPI().Paths {
		f.paths = append(f.paths, path)
	}
	sort.Strings(f.paths)
	for began, n := time.Now(), 0; !t.Failed() && (time.Since(began) < *fuzzLength || f.missing() != "" && time.Since(began) < time.Minute); n++ {
		if n%20 == 0 {
			f.bury()
		}
		f.request(f.paths[n%len(f.paths)])
	}
	if missing := f.missing(); missing != "" && !t.Failed() {
		t.Errorf("no request was good to%s", missing)
	}
}

// missing are the routes that no request was good to.
func (f *fuzzer) missing() (all string) {
	for _, path := range f.paths {
		item := f.api.huma.OpenAPI().Paths[path]
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post} {
			if route := method + " " + path; op != nil && f.routes[route] == 0 {
				all += " " + route
			}
		}
	}
	return all
}

func (f *fuzzer) chance(p float64) bool { return f.Float64() < p }

func pick[T any](f *fuzzer, all ...T) T { return all[f.IntN(len(all))] }

// request sends one to a path, and judges the answer.
func (f *fuzzer) request(path string) {
	item := f.api.huma.OpenAPI().Paths[path]
	method, op := "GET", item.Get
	if op == nil || item.Post != nil && f.chance(0.7) {
		method, op = "POST", item.Post
	}
	target, header := f.parameters(path, op)
	body, kind := f.body(op)
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+target, strings.NewReader(body))
	if err != nil {
		return // no such URL can be sent
	}
	request.Header = header
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	before := f.rows()
	response, err := f.server.Client().Do(request)
	if err != nil {
		f.t.Errorf("%s %s: %v", method, target, err)
		return
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Errorf("%s %s: %v", method, target, err)
	}
	if problem := f.judge(op, path, response, answer); problem != "" {
		f.t.Errorf("%s %s\n%v\n%s\nanswered %d: %s\n%s", method, target, header, body, response.StatusCode, answer, problem)
	}
	if after := f.rows(); response.StatusCode >= 400 && before != after && path != batchPath {
		f.t.Errorf("%s %s\n%s\nwas refused with %d, but rows %s became %s", method, target, body, response.StatusCode, before, after)
	}
	if response.StatusCode < 300 {
		f.routes[method+" "+path]++
	}
}

// rows counts what requests may write.
func (f *fuzzer) rows() string {
	return testdb.Value[string](f.t, f.db, `select concat_ws(' ', (select count(*) from lockstep.job), (select count(*) from lockstep.idempotency),
		(select count(*) from lockstep.pause), (select count(*) from lockstep.queue), (select count(*) from lockstep.dead_job), (select count(*) from lockstep.finished_job), (select count(*) from lockstep.replay_run))`)
}

// bury makes a job of a queue that nobody else uses die.
func (f *fuzzer) bury() {
	f.db.Exec(f.t, `do $$
		declare w constant uuid := '00000000-0000-4000-8000-000000000001'; c record;
		begin
		  perform lockstep.set_queue('grave', on_dead => 'block');
		  perform lockstep.enqueue('k', queue => 'grave'), lockstep.enqueue('k', queue => 'grave', ordering_key => gen_random_uuid()::text);
		  for c in select j.id, j.fence from lockstep.claim(w, 'grave', array['k'], 9, '30 s') k, json_to_recordset(k.jobs) j(id bigint, fence bigint) loop
		    perform lockstep.fail(w, c.id, c.fence, 'no good', permanent => true);
		  end loop;
		end $$`)
}

// judge says what is wrong with an answer; "": nothing.
func (f *fuzzer) judge(op *huma.Operation, path string, response *http.Response, answer []byte) string {
	described := op.Responses[fmt.Sprint(response.StatusCode)]
	switch {
	case response.StatusCode == http.StatusInternalServerError:
		return "this is a failure of ours"
	case described == nil:
		return "this status is not described"
	}
	if path == batchPath && response.StatusCode == http.StatusOK {
		for line := range strings.Lines(string(answer)) {
			if problem := f.fits(described, "application/x-ndjson", []byte(line)); problem != "" {
				return problem
			}
		}
		return ""
	}
	kind := response.Header.Get("Content-Type")
	if problem := f.fits(described, kind, answer); problem != "" {
		return problem
	}
	var p problem
	if response.StatusCode >= 400 {
		if json.Unmarshal(answer, &p); p.Status != response.StatusCode || p.Detail == "" || kind != "application/problem+json" {
			return "this problem tells too little"
		}
		if (p.Status == 422 || p.Status == 400 || p.Status == 413 || p.Status == 415) && (len(p.Errors) == 0 || p.Errors[0].Location == "" || p.Errors[0].Message == "") {
			return "it does not say where, and what"
		}
	}
	return ""
}

// fits says how an answer differs from its description.
func (f *fuzzer) fits(described *huma.Response, kind string, answer []byte) string {
	media := described.Content[kind]
	if media == nil {
		return "this type is not described: " + kind
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return "this is not JSON: " + err.Error()
	}
	result := &huma.ValidateResult{}
	huma.Validate(f.api.huma.OpenAPI().Components.Schemas, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	if len(result.Errors) > 0 {
		return fmt.Sprint("it is not as described: ", result.Errors)
	}
	return ""
}

// parameters fills in what a route takes in its path, query and headers.
func (f *fuzzer) parameters(path string, op *huma.Operation) (target string, header http.Header) {
	query, header := url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		value := fmt.Sprint(f.value(p.Schema, p.Name))
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(pick(f, f.id(), f.id(), f.id(), value)))
		case p.Name == "timeout":
			query.Set(p.Name, pick(f, "0", "1ms", "x", "-1s", "6m"))
		case p.In == "query" && f.chance(0.4):
			query.Set(p.Name, value)
		case p.In == "header" && f.chance(0.3):
			header.Set(p.Name, strings.Map(func(r rune) rune { return max(r, ' ') }, value))
		}
	}
	if f.chance(0.05) {
		query.Set(pick(f, "nothing", "Limit", "limit "), "1")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, header
}

// id is that of a job there is, if there is one.
func (f *fuzzer) id() string {
	view := pick(f, "jobs", "job")
	return fmt.Sprint(testdb.Value[int64](f.t, f.db, "select coalesce((select id from lockstep."+view+" where id % 3 = $1 order by random() limit 1), 1)", f.IntN(3)))
}

// body builds a body from its schema, now and then a broken one.
func (f *fuzzer) body(op *huma.Operation) (body, kind string) {
	if op.RequestBody == nil {
		return "", ""
	}
	var kinds []string
	for kind := range op.RequestBody.Content {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	kind = pick(f, kinds...)
	schema := op.RequestBody.Content[kind].Schema
	if op.OperationID == "unblockLane" && f.chance(0.5) {
		return f.blocked(), kind
	}
	body = f.object(schema)
	if len(kinds) > 1 {
		glue := map[bool]string{true: ",", false: "\n"}[kind == "application/json"]
		for range f.IntN(4) {
			body += glue + f.object(schema)
		}
		if kind == "application/json" {
			body = "[" + body + "]"
		}
	}
	switch f.IntN(30) {
	case 0:
		body = body[:f.IntN(len(body)+1)]
	case 1:
		body += pick(f, "x", "{}", "]", "\x00")
	case 2:
		kind = pick(f, "text/plain", "", "application/xml")
	case 3:
		at := f.IntN(len(body))
		body = body[:at] + string(byte(f.IntN(256))) + body[at:]
	}
	return body, kind
}

// blocked names a lane that a dead job blocks.
func (f *fuzzer) blocked() string {
	return testdb.Value[string](f.t, f.db, `select coalesce((select json_build_object('queue', queue, 'tenant', tenant, 'ordering_key', ordering_key)::text
		from lockstep.lanes where head_state = 'dead' limit 1), '{}')`)
}

// object is one of a schema, mostly a good one.
func (f *fuzzer) object(ref *huma.Schema) string {
	schema := f.api.huma.OpenAPI().Components.Schemas.SchemaFromRef(ref.Ref)
	var names, members []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		required := strings.Contains(" "+strings.Join(schema.Required, " ")+" ", " "+name+" ")
		if !required && f.chance(0.75) || f.chance(0.03) {
			continue
		}
		value, _ := json.Marshal(f.value(schema.Properties[name], name))
		members = append(members, fmt.Sprintf("%q: %s", pick(f, name, name, name, name, name, name, name, name, strings.ToUpper(name)), value))
		if f.chance(0.02) {
			members = append(members, members[len(members)-1])
		}
	}
	if schema.Properties["all"] != nil && f.chance(0.7) && !slices.ContainsFunc(members, func(m string) bool { return strings.HasPrefix(m, `"all"`) }) {
		members = append(members, `"all": true`)
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// value is one of a schema, mostly a good one.
func (f *fuzzer) value(schema *huma.Schema, name string) any {
	if f.chance(0.08) {
		return pick[any](f, nil, -1, 0, 1.5, 1e300, "", "\x00", "\xff", true, []int{1}, map[string]any{"a": nil}, strings.Repeat("x", 2000), "9223372036854775808")
	}
	if len(schema.Enum) > 0 {
		return schema.Enum[f.IntN(len(schema.Enum))]
	}
	switch schema.Type {
	case "array":
		return []int{f.IntN(50), f.IntN(50)}
	case "integer":
		return f.IntN(20) - 5
	case "number":
		return float64(f.IntN(2000))
	case "boolean":
		return f.chance(0.5)
	case "object":
		return map[string]string{"a": pick(f, "b", "ü", "\n")}
	}
	switch name {
	case "delay", "backoff_base", "backoff_cap", "dead_retention", "max_time":
		return pick(f, "1s", "1h", "0s", "90", "-1s", "2562047h", "9999999h")
	case "run_at", "died_from", "died_before":
		return pick(f, "2030-01-31T12:00:00Z", "2001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "soon", "-infinity")
	}
	return pick(f, "a", "b", "default", "a'b", `"`, `\`, "%", "$1", "ü", "\u202e", " ", "a\nb", "..", "a/b", "WyJhIiwiYiIsImMiXQ")
}
