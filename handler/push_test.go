package handler_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestPushTellsAllOfTheJob: its payload digit by digit, its facts in headers,
// signed by each secret.
func TestPushTellsAllOfTheJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, status(200, `{"total": 9007199254740993.10}`))
	const payload = `{"n": [9223372036854775807, 9007199254740993, 0.1, 1.0], "text": "ü\n"}`
	id := testdb.Value[int64](t, r.db, `select id from lockstep.enqueue('mail.send', $1::text::jsonb, tenant => 'acme', ordering_key => e'a ü%\n"b"',
		max_attempts => 3, headers => '{"traceparent": "00-1-2-01", "tracestate": "x=y", "n": 1}')`, payload)
	secrets := []string{"whsec_bmV3IHNlY3JldA==", "b2xkIHNlY3JldA=="}
	r.drain(r.target(handler.PushConfig{Secrets: secrets, Timeout: time.Hour}))

	pushes := r.app.got()
	if len(pushes) != 1 {
		t.Fatalf("%d pushes", len(pushes))
	}
	got := pushes[0]
	if got.body != payload {
		t.Errorf("the body is %s", got.body)
	}
	for name, want := range map[string]string{
		"Webhook-Id": strconv.FormatInt(id, 10), "Idempotency-Key": strconv.FormatInt(id, 10), "Content-Type": "application/json",
		"Lockstep-Kind": "mail.send", "Lockstep-Queue": "default", "Lockstep-Tenant": "acme", "Lockstep-Ordering-Key": `a%20%C3%BC%25%0A"b"`,
		"Lockstep-Attempt": "1", "Lockstep-Max-Attempts": "3", "Traceparent": "00-1-2-01", "Tracestate": "x=y",
		"Lockstep-Fencing-Token": testdb.Value[string](t, r.db, "select fence::text from lockstep.job_status($1)", id),
		"Lockstep-Enqueued-At":   testdb.Value[time.Time](t, r.db, "select created_at from lockstep.job_status($1)", id).UTC().Format(time.RFC3339Nano),
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	deadline, err := time.Parse(time.RFC3339, got.Get("Lockstep-Deadline"))
	if left := time.Until(deadline); err != nil || left < 50*time.Minute || left > time.Hour {
		t.Errorf("the deadline is %q", got.Get("Lockstep-Deadline"))
	}
	for _, secret := range secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify([]byte(got.body), got.Header); err != nil {
			t.Errorf("signed by %s: %v", secret, err)
		}
	}
	if fate, _ := r.fate(id); fate != `completed 1 {"total": 9007199254740993.10}` {
		t.Errorf("the job is %s", fate)
	}
}

// TestVerdicts: what each status means for the job, and what is kept of it.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		code, _ := strconv.Atoi(req.URL.Query().Get("status"))
		if code == 503 {
			w.Header().Set("Retry-After", "7000")
		}
		if code == 302 {
			w.Header().Set("Location", "/jobs?status=200")
		}
		status(code, "no "+strings.Repeat("ü", 3000))(w, req)
	})
	routes, ids := handler.Routes{}, map[int]int64{}
	wants := map[int]string{
		204: "completed 1", 299: "completed 1", 302: "retrying 1", 304: "retrying 1",
		400: "dead 1", 410: "dead 1", 413: "dead 1", 415: "dead 1", 422: "dead 1",
		401: "scheduled 0", 403: "scheduled 0", 404: "scheduled 0", 405: "scheduled 0", 421: "scheduled 0",
		402: "retrying 1", 408: "retrying 1", 409: "retrying 1", 425: "retrying 1", 429: "retrying 1",
		500: "retrying 1", 503: "retrying 1", 599: "retrying 1", 418: "dead 1", 502: "completed 1",
	}
	for code := range wants {
		kind := strconv.Itoa(code)
		routes = append(routes, handler.Route{Kind: kind, To: r.target(handler.PushConfig{
			URL: r.app.URL + "/jobs?status=" + kind, Answers: map[string]handler.Verdict{"418": "dead", "502": "done"},
		})})
		ids[code] = testdb.Value[int64](t, r.db, "select id from lockstep.enqueue($1)", kind)
	}
	r.drainAll(routes)
	for code, want := range wants {
		fate, note := r.fate(ids[code])
		if code == 299 || code == 502 {
			fate = strings.TrimSuffix(fate, ` "no `+strings.Repeat("ü", 3000)+`"`)
		}
		if fate != want {
			t.Errorf("%d: the job is %s, want %s", code, fate, want)
		}
		if begin := fmt.Sprintf("push to %s/jobs: answered %d", r.app.URL, code); want != "completed 1" && !strings.HasPrefix(note, begin) {
			t.Errorf("%d: the attempt's error is %.100q", code, note)
		}
		if want != "completed 1" && code != 304 && (len(note) > 2300 || !strings.HasSuffix(note, "üüü")) {
			t.Errorf("%d: the answer is not kept, or too much of it: %d bytes, %.100q", code, len(note), note)
		}
	}
	if pushes := r.app.got(); len(pushes) != len(wants) {
		t.Errorf("%d pushes for %d jobs", len(pushes), len(wants))
	}
	if in := testdb.Value[float64](t, r.db, "select extract(epoch from run_at - clock_timestamp())::float8 from lockstep.job_status($1)", ids[503]); in < 3500 || in > 3600 {
		t.Errorf("Retry-After: 7000 has the job wait %v s, want its cap", in)
	}
}

// TestALaterClaimIsKnown: an app that has seen a greater token ends this
// attempt, which is not used up; a smaller one is an ordinary conflict.
func TestALaterClaimIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		token, _ := strconv.Atoi(req.Header.Get("Lockstep-Fencing-Token"))
		switch req.Header.Get("Lockstep-Kind") {
		case "header":
			w.Header().Set("Lockstep-Fencing-Token", strconv.Itoa(token+1))
			w.WriteHeader(409)
		case "body":
			status(409, fmt.Sprintf(`{"fencing_token": %d}`, token+1))(w, req)
		default:
			status(409, fmt.Sprintf(`{"fencing_token": %d}`, token))(w, req)
		}
	})
	for kind, want := range map[string]string{"header": "scheduled 0", "body": "scheduled 0", "same": "retrying 1"} {
		id := testdb.Value[int64](t, r.db, "select id from lockstep.enqueue($1)", kind)
		r.drain(r.target(handler.PushConfig{}))
		if fate, note := r.fate(id); fate != want || !strings.Contains(note, "answered 409") {
			t.Errorf("%s: the job is %s, want %s (%s)", kind, fate, want, note)
		}
	}
}

// TestAPushIsSentOnce: when a connection that was kept ends while the app is at
// work, the push is not sent again behind our back.
func TestAPushIsSentOnce(t *testing.T) {
	t.Parallel()
	var cold atomic.Bool
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if !cold.Load() {
			return // its connection is kept
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	target := r.target(handler.PushConfig{})
	r.enqueue("{}")
	r.drain(target)
	cold.Store(true)
	id := r.enqueue("{}")
	r.drain(target)
	if fate, _ := r.fate(id); fate != "retrying 1" {
		t.Errorf("the job is %s", fate)
	}
	if n := len(r.app.got()); n != 2 {
		t.Errorf("%d pushes for 2 attempts", n)
	}
}

// TestNothingSecretIsLogged: not the payload, even if the app repeats it, not
// the target's query, no signature, no secret.
func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, code := range []int{200, 400, 404, 500} {
		r.app.answer = status(code, "you sent MARKER")
		target := r.target(handler.PushConfig{Secrets: []string{"TUFSS0VS"}, URL: r.app.URL + "/jobs?token=MARKER"})
		r.enqueue(`{"card": "MARKER"}`)
		r.drain(target)
	}
	r.app.CloseClientConnections()
	r.app.Close()
	r.enqueue(`{"card": "MARKER"}`)
	r.drain(r.target(handler.PushConfig{URL: r.app.URL + "/jobs?token=MARKER"}))
	log := r.log.String()
	if !strings.Contains(log, "answered 500") || !strings.Contains(log, "connection refused") {
		t.Errorf("the log does not tell what happened:\n%s", log)
	}
	for _, secret := range []string{"MARKER", "TUFSS0VS", "v1,"} {
		if at := strings.Index(log, secret); at >= 0 {
			t.Errorf("the log has %q: …%s", secret, log[max(0, at-200):at+len(secret)])
		}
	}
}

func TestBadTargets(t *testing.T) {
	t.Parallel()
	const good = "http://127.0.0.1:1/jobs"
	for name, c := range map[string]handler.PushConfig{
		"url: it must begin with http":       {URL: "ftp://127.0.0.1/MARKER"},
		"url: it must begin with http:":      {URL: "127.0.0.1:8080/MARKER"},
		"url: it must begin with http://":    {URL: ":8080/MARKER"},
		"url: it names no host":              {URL: "http:///MARKER"},
		"url: its port is 99999":             {URL: "http://127.0.0.1:99999/MARKER"},
		"url: its port is 0":                 {URL: "http://127.0.0.1:0/MARKER"},
		"url: it has a user name":            {URL: "http://user:MARKER@127.0.0.1/"},
		"url: it has a fragment":             {URL: "http://127.0.0.1/#MARKER"},
		"url: ":                              {URL: "http://127.0.0.1/%zzMARKER\x00"},
		"timeout: ":                          {URL: good, Timeout: -time.Second},
		"parallel: ":                         {URL: good, Parallel: -1},
		"secrets: number 2 is not base64":    {URL: good, Secrets: []string{"TUFS", "MARKER!"}},
		"secrets: number 1 is empty":         {URL: good, Secrets: []string{""}},
		"secrets: number 2 is empty":         {URL: good, Secrets: []string{"TUFS", "whsec_"}},
		`answers: "600" is not a status`:     {URL: good, Answers: map[string]handler.Verdict{"600": "dead"}},
		`answers: "4x" is not a status`:      {URL: good, Answers: map[string]handler.Verdict{"4x": "dead"}},
		`answers: "404" means "perhaps"; it`: {URL: good, Answers: map[string]handler.Verdict{"404": "perhaps"}},
	} {
		_, err := handler.NewPush(c)
		if err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("want %q: %v", name, err)
		}
	}
}

// TestParallelPushesAreBounded, however many slots there are.
func TestParallelPushesAreBounded(t *testing.T) {
	t.Parallel()
	running, most := make(chan struct{}, 100), make(chan int, 100)
	r := newRig(t, func(http.ResponseWriter, *http.Request) {
		running <- struct{}{}
		most <- len(running)
		time.Sleep(5 * time.Millisecond) // so that others would come, if they could
		<-running
	})
	for range 30 {
		r.enqueue("{}")
	}
	r.drain(r.target(handler.PushConfig{Parallel: 3}))
	close(most)
	var seen []int
	for n := range most {
		seen = append(seen, n)
	}
	if len(seen) != 30 || slices.Max(seen) != 3 {
		t.Errorf("%d pushes, at most %d at a time", len(seen), slices.Max(seen))
	}
}
