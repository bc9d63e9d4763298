package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// seen is a job as the API shows it.
type seen struct {
	ID         int64
	State      string
	Queue      string
	WaitingFor string `json:"waiting_for"`
	Attempts   []struct{ Outcome, Error string }
	Error      string
	Payload    json.RawMessage
}

// kill makes the ready job of a kind die, without a worker of its own.
func (r *apiRig) kill(t testing.TB, kind string) {
	t.Helper()
	r.db.Exec(t, fmt.Sprintf(`do $$
		declare c record;
		begin
		  select j.id, j.fence into c from lockstep.claim('00000000-0000-4000-8000-000000000001', 'default', array['%s'], 1, '30 s') k,
		    lateral jsonb_to_recordset(to_jsonb(k) -> 'jobs') j(id bigint, fence bigint);
		  perform lockstep.fail('00000000-0000-4000-8000-000000000001', c.id, c.fence, 'no good', permanent => true);
		end $$`, kind))
}

// TestAClientThatGivesUpAndRepeats makes one job: it had no answer to the first
// request, which waited for a lock.
func TestAClientThatGivesUpAndRepeats(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	tx, err := r.db.Conn(t).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "lock table lockstep.job in exclusive mode")
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, "POST", r.URL+"/v1/jobs", strings.NewReader(`{"kind": "k"}`))
		if err == nil {
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Idempotency-Key", "once")
			var response *http.Response
			if response, err = r.Client().Do(request); err == nil {
				response.Body.Close()
			}
		}
		gone <- err
	}()
	until(t, func() bool {
		return testdb.Value[bool](t, r.db, "select exists (select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database()))")
	})
	giveUp()
	if err := <-gone; err == nil {
		t.Error("the first request was answered")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := r.do(t, "POST", "/v1/jobs", `{"kind": "k"}`, "Idempotency-Key", "once"); a.status != 200 && a.status != 201 {
			t.Errorf("answered %d: %s", a.status, a.body)
		}
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// TestJobRoutes: lists in pages, what is done to a job, and waiting for its end.
func TestJobRoutes(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{MaxWaiters: 1})
	var ids []int64
	for i := range 5 {
		ids = append(ids, want[id](t, r.do(t, "POST", "/v1/jobs", fmt.Sprintf(`{"kind": "k", "queue": "q", "delay": "1h", "payload": %d}`, i)), 201).ID)
	}
	var listed []int64
	for after := ""; ; {
		page := want[struct {
			Jobs  []seen
			Next  string
			Count int
		}](t, r.do(t, "GET", "/v1/jobs?queue=q&state=scheduled&count=true&limit=2&after="+after, ""), 200)
		if page.Count != 5 {
			t.Errorf("%d jobs are counted", page.Count)
		}
		for _, j := range page.Jobs {
			listed = append(listed, j.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if slices.Reverse(listed); !slices.Equal(listed, ids) {
		t.Errorf("listed %v, want %v", listed, ids)
	}
	path := func(i int, what string) string { return fmt.Sprintf("/v1/jobs/%d%s", ids[i], what) }
	if j := want[seen](t, r.do(t, "GET", path(0, ""), ""), 200); !strings.HasPrefix(j.WaitingFor, "scheduled for ") || j.State != "scheduled" {
		t.Errorf("%+v", j)
	}
	for i, step := range []struct{ what, body, state string }{
		{"/retry", "", "ready"},
		{"/reschedule", `{"delay": "2h"}`, "scheduled"},
		{"/reschedule", `{"run_at": "2001-01-01T00:00:00Z"}`, "scheduled"},
		{"/priority", `{"priority": 3}`, "changed"},
		{"/cancel", "", "cancelled"},
	} {
		if j := want[seen](t, r.do(t, "POST", path(i, step.what), step.body), 200); j.State != step.state {
			t.Errorf("%s: %+v", step.what, j)
		}
	}
	if p := want[told](t, r.do(t, "POST", path(4, "/retry"), ""), 409); p.Type != "urn:lockstep:LS006" {
		t.Errorf("%+v", p)
	}
	if p := want[told](t, r.do(t, "GET", "/v1/jobs/999999", ""), 404); p.Type != "urn:lockstep:LS005" {
		t.Errorf("%+v", p)
	}
	want[seen](t, r.do(t, "GET", path(4, "/wait?timeout=1m"), ""), 200)
	want[seen](t, r.do(t, "GET", path(1, "/wait?timeout=50ms"), ""), 202)
	waits := make(chan answered, 1)
	waiting := func(i int) {
		a := answered{status: 429}
		for a.status == 429 { // the look below whether it waits may be before it
			a = r.do(t, "GET", path(i, "/wait?timeout=5m"), "")
		}
		waits <- a
	}
	go waiting(1)
	until(t, func() bool { return r.do(t, "GET", path(1, "/wait?timeout=0"), "").status == 429 })
	want[seen](t, r.do(t, "POST", path(1, "/cancel"), ""), 200)
	if j := want[seen](t, <-waits, 200); j.State != "cancelled" {
		t.Errorf("waited for %+v", j)
	}
	go waiting(2)
	until(t, func() bool { return r.do(t, "GET", path(2, "/wait?timeout=0"), "").status == 429 })
	r.api.Stop()
	want[seen](t, <-waits, 202)
}

// TestDeadLetters are listed, shown, replayed alone and by filter, and
// discarded; a blocked lane goes on.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	for i := range 6 {
		want[id](t, r.do(t, "POST", "/v1/jobs", fmt.Sprintf(`{"kind": "k%d"}`, i%2)), 201)
		r.kill(t, fmt.Sprintf("k%d", i%2))
	}
	type list struct{ Jobs []seen }
	dead := want[list](t, r.do(t, "GET", "/v1/dead?kind=k0", ""), 200).Jobs
	if len(dead) != 3 || dead[0].Error != "no good" {
		t.Fatalf("%+v", dead)
	}
	one := fmt.Sprintf("/v1/dead/%d", dead[0].ID)
	if j := want[seen](t, r.do(t, "GET", one, ""), 200); len(j.Attempts) != 1 || j.Attempts[0].Error != "no good" {
		t.Errorf("%+v", j)
	}
	want[seen](t, r.do(t, "POST", one+"/replay", ""), 200)
	want[told](t, r.do(t, "GET", one, ""), 409)
	if p := want[told](t, r.do(t, "GET", `/v1/dead?error=a%5c`, ""), 422); p.where() != "query.error" {
		t.Errorf("%+v", p)
	}
	var paged []int64
	for after := ""; ; {
		page := want[struct {
			Jobs []seen
			Next string
		}](t, r.do(t, "GET", "/v1/dead?limit=2&after="+after, ""), 200)
		for _, j := range page.Jobs {
			paged = append(paged, j.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(paged) != 5 || !slices.IsSortedFunc(paged, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("page by page: %v", paged)
	}
	want[seen](t, r.do(t, "POST", fmt.Sprintf("/v1/dead/%d/discard", dead[1].ID), ""), 200)
	want[told](t, r.do(t, "POST", "/v1/dead/replay", `{}`), 422)
	run := want[id](t, r.do(t, "POST", "/v1/dead/replay", `{"kind": "k1", "error": "no%", "rate": 1000, "started_by": "me"}`), 200)
	until(t, func() bool {
		r.db.Exec(t, "select lockstep.due()")
		return len(want[list](t, r.do(t, "GET", "/v1/dead", ""), 200).Jobs) == 1
	})
	want[id](t, r.do(t, "POST", "/v1/dead/replay", `{"all": true, "rate": 0.001}`), 200)
	replays := want[struct {
		Replays []struct {
			ID       int64
			State    string
			Replayed int
		}
	}](t, r.do(t, "GET", "/v1/replays", ""), 200).Replays
	if len(replays) != 2 || replays[1].ID != run.ID || replays[1].Replayed != 3 {
		t.Errorf("%+v", replays)
	}
	stop := fmt.Sprintf("/v1/replays/%d/cancel", replays[0].ID)
	for _, state := range []string{"cancelled", "ended"} {
		if j := want[seen](t, r.do(t, "POST", stop, ""), 200); j.State != state {
			t.Errorf("%+v, want %s", j, state)
		}
	}
	rest := want[list](t, r.do(t, "GET", "/v1/dead", ""), 200).Jobs
	want[seen](t, r.do(t, "POST", fmt.Sprintf("/v1/dead/%d/discard", rest[0].ID), ""), 200)
	if left := want[list](t, r.do(t, "GET", "/v1/dead", ""), 200).Jobs; len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestC97Names of every kind are data, in bodies and in filters.
func TestC97Names(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	for _, name := range []string{"a'b", `a"b`, "a;--", "%", "_", "$1", `\`, "a\nb", "a\u202eb", "  ", "..", "a/b", "' or ''='"} {
		quoted := fmt.Sprintf("%q", name)
		if name == "a\u202eb" {
			quoted = `"a\u202eb"`
		}
		want[id](t, r.do(t, "POST", "/v1/jobs", strings.ReplaceAll(`{"kind": N, "queue": N, "tenant": N, "ordering_key": N, "dedupe_key": N}`, "N", quoted), "Idempotency-Key", "a key of "+strings.ReplaceAll(name, "\n", " ")), 201)
		q := url.QueryEscape(name)
		for path, field := range map[string]string{
			"/v1/jobs?queue=" + q + "&kind=" + q + "&tenant=" + q + "&ordering_key=" + q: "jobs",
			"/v1/lanes?queue=" + q + "&tenant=" + q:                                      "lanes",
		} {
			found := want[map[string][]map[string]any](t, r.do(t, "GET", path, ""), 200)[field]
			if len(found) != 1 || found[0]["ordering_key"] != name {
				t.Errorf("%q: %s found %v", name, path, found)
			}
		}
		want[struct{}](t, r.do(t, "POST", "/v1/pause", `{"queue": `+quoted+`}`), 200)
		want[struct{}](t, r.do(t, "POST", "/v1/resume", `{"queue": `+quoted+`}`), 200)
		want[struct{}](t, r.do(t, "POST", "/v1/queues", `{"name": `+quoted+`, "on_dead": "block"}`), 200)
		want[struct{}](t, r.do(t, "POST", "/v1/lanes/skip-head", strings.ReplaceAll(`{"queue": N, "tenant": N, "ordering_key": N}`, "N", quoted)), 200)
		want[struct{}](t, r.do(t, "GET", "/v1/dead?queue="+q, ""), 200)
	}
	names := want[struct{ Queues []struct{ Name string } }](t, r.do(t, "GET", "/v1/queues?limit=200", ""), 200).Queues
	if len(names) != 13 {
		t.Errorf("%d queues: %q", len(names), names)
	}
	want[told](t, r.do(t, "GET", "/v1/jobs?queue=%00", ""), 422)
	want[told](t, r.do(t, "GET", "/v1/jobs?queue=%ff", ""), 422)
	want[told](t, r.do(t, "GET", "/v1/jobs?qeue=a", ""), 422)
	want[told](t, r.do(t, "GET", "/v1/nothing", ""), 404)
	if a := r.do(t, "DELETE", "/v1/jobs", ""); a.status != 405 || a.header.Get("Allow") == "" {
		t.Errorf("answered %d %v", a.status, a.header)
	}
}

// TestLanesAndQueues: pages of lanes, a blocked one that is let go on, pauses
// and policies, and counts.
func TestLanesAndQueues(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	want[struct{}](t, r.do(t, "POST", "/v1/queues", `{"name": "default", "on_dead": "block", "backoff_base": "2s", "backoff_cap": "1h"}`), 200)
	for i := range 6 {
		want[id](t, r.do(t, "POST", "/v1/jobs", fmt.Sprintf(`{"kind": "k%d", "ordering_key": "o%d"}`, i%3, i%3)), 201)
	}
	r.kill(t, "k1")
	type lanes struct {
		Lanes []struct {
			OrderingKey string `json:"ordering_key"`
			HeadState   string `json:"head_state"`
			Waiting     int
		}
		Next string
	}
	first := want[lanes](t, r.do(t, "GET", "/v1/lanes?limit=2", ""), 200)
	second := want[lanes](t, r.do(t, "GET", "/v1/lanes?limit=2&after="+first.Next, ""), 200)
	if len(first.Lanes) != 2 || len(second.Lanes) != 1 || second.Lanes[0].OrderingKey != "o2" || second.Next != "" || first.Lanes[0].Waiting != 1 {
		t.Errorf("%+v, %+v", first, second)
	}
	blocked := want[lanes](t, r.do(t, "GET", "/v1/lanes/blocked", ""), 200).Lanes
	if len(blocked) != 1 || blocked[0].OrderingKey != "o1" || blocked[0].Waiting != 1 {
		t.Errorf("blocked: %+v", blocked)
	}
	want[struct{}](t, r.do(t, "POST", "/v1/lanes/unblock", `{"ordering_key": "o1"}`), 200)
	want[told](t, r.do(t, "POST", "/v1/lanes/unblock", `{"ordering_key": "o1"}`), 409)
	want[told](t, r.do(t, "POST", "/v1/lanes/unblock", `{"ordering_key": "none"}`), 404)
	want[struct{}](t, r.do(t, "POST", "/v1/pause", `{"queue": "default", "reason": "why", "paused_by": "me"}`), 200)
	queues := want[struct {
		Queues []struct {
			Name, Reason string
			Paused       bool
			OnDead       string           `json:"on_dead"`
			Base         float64          `json:"backoff_base_seconds"`
			Jobs         map[string]int64 `json:"jobs"`
		}
	}](t, r.do(t, "GET", "/v1/queues", ""), 200).Queues
	if len(queues) != 1 || !queues[0].Paused || queues[0].Reason != "why" || queues[0].OnDead != "block" || queues[0].Base != 2 || queues[0].Jobs["dead"] != 1 || queues[0].Jobs["ready"] != 3 {
		t.Errorf("%+v", queues)
	}
	pauses := want[struct{ Pauses []map[string]any }](t, r.do(t, "GET", "/v1/pauses", ""), 200).Pauses
	if len(pauses) != 1 || pauses[0]["paused_by"] != "me" {
		t.Errorf("%+v", pauses)
	}
	if s := want[struct{ Counts []map[string]any }](t, r.do(t, "GET", "/v1/stats", ""), 200); len(s.Counts) != 3 {
		t.Errorf("%+v", s)
	}
	if d := want[struct{ Dispatchers []any }](t, r.do(t, "GET", "/v1/dispatchers", ""), 200); len(d.Dispatchers) != 0 {
		t.Errorf("%+v", d)
	}
}
