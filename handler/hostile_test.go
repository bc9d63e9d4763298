package handler_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestC95ATargetThatIsDown (scaled): answers 404, then refuses connections,
// for some seconds each. No attempt is used up, it is not hammered, and then
// all goes on in order.
func TestC95ATargetThatIsDown(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if !there.Load() {
			w.WriteHeader(404)
		}
	})
	r.db.Exec(t, `select lockstep.enqueue('k', to_jsonb(i), ordering_key => (i % 5)::text) from generate_series(1, 50) i`)
	r.db.Exec(t, `select lockstep.enqueue('k', to_jsonb(i)) from generate_series(51, 100) i`)
	var events atomic.Int64
	routes := handler.Routes{{To: r.target(handler.PushConfig{})}}
	d := r.dispatcher(routes, dispatcher.Config{Poll: 10 * time.Minute, OnEvent: func(e dispatcher.Event) {
		if e.Type == dispatcher.Started {
			events.Add(1)
		}
	}})
	stop := r.run(d)
	defer stop()
	r.until("the circuit has tried again twice", func() bool { return len(r.app.got()) >= 7 })
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.jobs where attempt > 1 or state in ('dead', 'retrying')"); n > 0 {
		t.Errorf("%d jobs lost an attempt", n)
	}
	// Two probes, each with the slots' worth of jobs waiting for it, and the faults before.
	if n := events.Load(); n > 5*20 {
		t.Errorf("%d attempts began while the target was down", n)
	}
	there.Store(true)
	r.until("all are done", func() bool { return testdb.Value[int](t, r.db, "select count(*) from lockstep.job") == 0 })
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.jobs where state <> 'completed' or attempt <> 1"); n > 0 {
		t.Errorf("%d jobs are not completed in their first attempt", n)
	}
	last := map[string]int{}
	for _, p := range r.app.got()[7:] {
		n, _ := strconv.Atoi(p.body)
		if key := p.Get("Lockstep-Ordering-Key"); key != "" && n < last[key] {
			t.Errorf("key %s: %d after %d", key, n, last[key])
		} else if key != "" {
			last[key] = n
		}
	}
}

// TestUnreachable: a target that refuses connections, has no address that is
// allowed, or does not speak TLS, costs no attempt.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := newRig(t, status(200, ""))
	for name, url := range map[string]string{
		"refused": "http://127.0.0.1:1/", "not in the list of allowed ones": "http://169.254.169.254/latest/meta-data/",
		"no such host": "http://nothing.invalid/", "gave HTTP response": strings.Replace(r.app.URL, "http", "https", 1),
	} {
		id := r.enqueue("{}")
		r.drain(r.target(handler.PushConfig{URL: url}))
		if fate, note := r.fate(id); fate != "scheduled 0" || name != "no such host" && !strings.Contains(note, name) {
			t.Errorf("%s: the job is %s (%s)", name, fate, note)
		}
	}
}

// TestHostileAnswers: whatever a target sends, and however it ends, the job is
// in a defined state, and no connection is left.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var n atomic.Int64
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		random := rand.New(rand.NewPCG(seed, uint64(n.Add(1))))
		hostile(w, req, random)
	})
	r.db.Exec(t, `select lockstep.enqueue('k', ordering_key => case when i % 8 = 0 then i::text end, max_attempts => 2) from generate_series(1, 400) i`)
	target := r.target(handler.PushConfig{Timeout: 300 * time.Millisecond, Parallel: 20})
	r.drain(target)
	counts := testdb.Value[string](t, r.db, "select string_agg(state || ' ' || n, ', ' order by state) from (select state, count(*) n from lockstep.jobs group by 1) s")
	t.Log(counts)
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.jobs where state in ('running', 'cancelled')"); n > 0 {
		t.Errorf("%d jobs are in no defined state: %s", n, counts)
	}
	if n := r.app.open.Load(); n > 20 {
		t.Errorf("%d connections are open", n)
	}
}

// hostile answers in one of the ways in which apps should not.
func hostile(w http.ResponseWriter, req *http.Request, random *rand.Rand) {
	w.Header().Set("Retry-After", []string{"", "0", "-1", "9999999999", "never"}[random.IntN(5)])
	code := 200 + random.IntN(400)
	if random.IntN(2) == 0 {
		code = 200
	}
	switch random.IntN(8) {
	case 0: // shorter than it says
		w.Header().Set("Content-Length", "1000")
		status(code, "short")(w, req)
	case 1: // endless
		w.WriteHeader(code)
		for req.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	case 2: // slow
		<-req.Context().Done()
	case 3: // no HTTP
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 %d \x00\r\n\r\n", random.IntN(10000))
			_ = conn.Close()
		}
	case 4: // endless header
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := fmt.Fprintf(conn, "X-%d: %s\r\n", random.Uint64(), strings.Repeat("x", 1000)); err != nil {
					break
				}
			}
			_ = conn.Close()
		}
	case 5: // not text
		status(code, "\xff\xfe\x00{\"\\u0000\": \"\\ud800\"}")(w, req)
	case 6: // JSON that PostgreSQL can't hold
		status(code, `{"a": "\u0000", "b": 1e999999}`)(w, req)
	default:
		status(code, `{"ok": true}`)(w, req)
	}
}

// TestSocketsStayFlat over many errors.
func TestSocketsStayFlat(t *testing.T) {
	t.Parallel()
	r := newRig(t, status(500, strings.Repeat("no ", 1000)))
	r.db.Exec(t, "select lockstep.enqueue('k') from generate_series(1, 2000)")
	r.drain(r.target(handler.PushConfig{}))
	if n := r.app.opened.Load(); n > 40 {
		t.Errorf("%d connections for 2000 pushes, 20 at a time", n)
	}
	if n := len(r.app.got()); n != 2000 {
		t.Errorf("%d pushes", n)
	}
}
