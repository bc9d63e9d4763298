package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// rig is a database, and an app that answers as it is told.
type rig struct {
	testing.TB
	db  *testdb.DB
	app *app
	log *safeBuffer
}

func newRig(t testing.TB, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{TB: t, db: testdb.New(t), app: &app{answer: answer}, log: new(safeBuffer)}
	r.db.Exec(t, "select lockstep.set_queue('default', backoff_base => '1 h')") // a retry is not to be waited for
	r.app.Server = httptest.NewUnstartedServer(r.app)
	r.app.Config.ConnState = r.app.count
	r.app.Start()
	t.Cleanup(r.app.Close)
	return r
}

// app keeps what was pushed to it.
type app struct {
	*httptest.Server
	answer http.HandlerFunc

	opened, open atomic.Int64 // connections: ever, and now

	mu     sync.Mutex
	pushes []push
}

type push struct {
	http.Header
	body string
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	a.pushes = append(a.pushes, push{r.Header, string(body)})
	a.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.answer(w, r)
}

func (a *app) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		a.opened.Add(1)
		a.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		a.open.Add(-1)
	}
}

func (a *app) got() []push {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]push(nil), a.pushes...)
}

// target is a Push to the app.
func (r *rig) target(c handler.PushConfig) *handler.Push {
	r.Helper()
	if c.URL == "" {
		c.URL = r.app.URL + "/jobs?token=secret"
	}
	p, err := handler.NewPush(c)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(p.Close)
	return p
}

// dispatcher works on the queue default for the routes.
func (r *rig) dispatcher(routes handler.Routes, c dispatcher.Config) *dispatcher.Dispatcher {
	r.Helper()
	c.Queues = map[string]dispatcher.Queue{"default": {Concurrency: 20, Kinds: routes.Kinds("default")}}
	c.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d, err := dispatcher.New(r.db.Pool(r), c)
	if err != nil {
		r.Fatal(err)
	}
	routes.Register(d, "default")
	return d
}

// drain pushes what is ready.
func (r *rig) drain(to handler.Runner) {
	r.Helper()
	r.drainAll(handler.Routes{{To: to}})
}

func (r *rig) drainAll(routes handler.Routes) {
	r.Helper()
	d := r.dispatcher(routes, dispatcher.Config{ShutdownGrace: time.Minute})
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	if err := d.RunUntilIdle(ctx); err != nil {
		r.Fatal(err)
	}
}

// enqueue adds a job with a payload.
func (r *rig) enqueue(payload string) int64 {
	r.Helper()
	return testdb.Value[int64](r, r.db, "select id from lockstep.enqueue('k', $1)", json.RawMessage(payload))
}

// fate is what became of a job, and the error of its last attempt.
func (r *rig) fate(id int64) (fate, note string) {
	r.Helper()
	fate = testdb.Value[string](r, r.db, "select state || ' ' || attempt || coalesce(' ' || result::text, '') from lockstep.job_status($1)", id)
	note = testdb.Value[string](r, r.db, "select coalesce((select error from lockstep.attempts where job_id = $1 order by ended_at desc limit 1), '')", id)
	return fate, note
}

// safeBuffer is a bytes.Buffer for many goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// status answers with a status and a text.
func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
}

// run starts a dispatcher; stop ends it and waits.
func (r *rig) run(d *dispatcher.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	}
}

// until waits for something to come true.
func (r *rig) until(what string, is func() bool) {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			r.Fatalf("not within a minute: %s\n%s", what, r.log)
		}
		<-time.After(10 * time.Millisecond)
	}
}
