package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// worker is a dispatcher with metrics, and what its handlers do.
type worker struct {
	*dispatcher.Dispatcher
	metrics *web.Metrics
}

func newWorker(t *testing.T, db *testdb.DB, fn func(job dispatcher.Job[json.RawMessage]) error) *worker {
	t.Helper()
	w := &worker{metrics: web.NewMetrics(web.MetricsConfig{
		Queues: []string{"default", "other one"}, Count: store.New(db.Pool(t)).CountJobs,
		Circuits: func() map[string]string { return map[string]string{"http://a/": "open", "http://b/": "closed"} },
	})}
	d, err := dispatcher.New(db.Pool(t), dispatcher.Config{Logger: slog.New(slog.DiscardHandler), OnEvent: w.metrics.OnEvent})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher.Handle(d, "*", func(_ context.Context, job dispatcher.Job[json.RawMessage]) error { return fn(job) })
	w.Dispatcher = d
	w.metrics.Watch(d)
	return w
}

// scrape reads the metrics: each line's value by name and labels.
func (w *worker) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.metrics.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	values := map[string]float64{}
	for line := range strings.Lines(recorder.Body.String()) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			values[line[:at]] = value
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	w := newWorker(t, db, func(job dispatcher.Job[json.RawMessage]) error {
		if job.Kind == "bad" {
			return errors.New("no")
		}
		return nil
	})
	w.scrape(t) // before there is a run
	db.Exec(t, "select lockstep.enqueue('good') from generate_series(1, 3)")
	db.Exec(t, "select lockstep.enqueue('bad', max_attempts => 1)")
	db.Exec(t, "select lockstep.enqueue('k', queue => 'elsewhere') from generate_series(1, 5)")
	db.Exec(t, "select lockstep.enqueue('k', delay => '1 h')")
	if err := w.RunUntilIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "delete from lockstep.fleet_stats")
	values := w.scrape(t)
	for name, want := range map[string]float64{
		`lockstep_attempts_total{handler="*",outcome="completed"}`: 3,
		`lockstep_attempts_total{handler="*",outcome="dead"}`:      1,
		`lockstep_attempts_total{handler="*",outcome="failed"}`:    0,
		`lockstep_handler_seconds_count{handler="*"}`:              4,
		`lockstep_wait_seconds_count{queue="default"}`:             4,
		`lockstep_pickup_seconds_count{queue="default"}`:           4,
		`lockstep_jobs{queue="default",state="ready"}`:             0,
		`lockstep_jobs{queue="default",state="scheduled"}`:         1,
		`lockstep_jobs{queue="default",state="dead"}`:              1,
		`lockstep_jobs{queue="other one",state="ready"}`:           0,
		`lockstep_jobs{queue="other",state="ready"}`:               5,
		`lockstep_circuit_open{target="http://a/"}`:                1,
		`lockstep_circuit_open{target="http://b/"}`:                0,
		`lockstep_slots{queue="default"}`:                          10,
		`lockstep_slots_busy{queue="default"}`:                     0,
		`lockstep_signals_lost_total{queue="default"}`:             0,
		`lockstep_leases_held`:                                     0,
	} {
		if got, there := values[name]; got != want || !there && want != 0 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	claimed := 0.0
	for _, reason := range []string{"signal", "timer", "catch-up", "poll"} {
		claimed += values[fmt.Sprintf(`lockstep_jobs_claimed_total{queue="default",reason=%q}`, reason)]
	}
	if claimed != 4 {
		t.Errorf("%v jobs claimed by all reasons", claimed)
	}
	if age := values[`lockstep_oldest_ready_age_seconds{queue="other"}`]; age <= 0 || age > 600 {
		t.Errorf("the oldest ready job is %v s old", age)
	}
}

// TestC102LabelsAreFew, whatever kinds, queues and keys there are.
func TestC102LabelsAreFew(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	w := newWorker(t, db, func(dispatcher.Job[json.RawMessage]) error { return errors.New("MARKER") })
	db.Exec(t, "select lockstep.enqueue('one'), lockstep.enqueue('later', queue => 'q')")
	if err := w.RunUntilIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "delete from lockstep.fleet_stats")
	before := len(w.scrape(t))
	db.Exec(t, `select lockstep.enqueue('kind' || i, ordering_key => 'MARKER' || i) from generate_series(1, 300) i`)
	db.Exec(t, `select lockstep.enqueue('kind', queue => 'MARKER' || i) from generate_series(1, 300) i`)
	if err := w.RunUntilIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "delete from lockstep.fleet_stats")
	values := w.scrape(t)
	if after := len(values); after > before+1 { // a state that there was no job in before
		t.Errorf("%d series became %d", before, after)
	}
	for name := range values {
		if regexp.MustCompile(`MARKER|kind\d`).MatchString(name) {
			t.Errorf("a label tells too much: %s", name)
		}
	}
}

// TestC103OneCountForTheFleet: three processes that are scraped all the time say
// the same, and the jobs are counted seldom.
func TestC103OneCountForTheFleet(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.enqueue('k') from generate_series(1, 10)")
	var counts atomic.Int64
	var all []*worker
	for range 3 {
		w := &worker{metrics: web.NewMetrics(web.MetricsConfig{Queues: []string{"default"}, Count: store.New(db.Pool(t)).CountJobs})}
		all = append(all, w)
	}
	seen := map[time.Time]bool{}
	for range 10 {
		for _, w := range all {
			if n := w.scrape(t)[`lockstep_jobs{queue="default",state="ready"}`]; n != 10 {
				t.Errorf("%v jobs are ready, want 10", n)
			}
			seen[testdb.Value[time.Time](t, db, "select counted_at from lockstep.fleet_stats")] = true
			counts.Add(1)
		}
	}
	if len(seen) > 3 {
		t.Errorf("counted %d times for %d scrapes", len(seen), counts.Load())
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	w := newWorker(t, db, func(dispatcher.Job[json.RawMessage]) error { return nil })
	var away atomic.Bool
	health := web.NewHealth(web.HealthConfig{Dispatcher: w.Dispatcher, Note: "a note", Database: func(context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	}, NotifyQueue: func(context.Context) (store.NotifyQueue, error) {
		return store.NotifyQueue{Usage: 0.5, Open: []store.OpenTransaction{{PID: 4711, State: "idle in transaction", Age: time.Hour}}}, nil
	}})
	ready := func() (status int, answer web.Readiness) {
		recorder := httptest.NewRecorder()
		health.Ready(recorder, httptest.NewRequest("GET", "/readyz", nil))
		content, _ := io.ReadAll(recorder.Body)
		if err := json.Unmarshal(content, &answer); err != nil {
			t.Fatalf("%v: %s", err, content)
		}
		return recorder.Code, answer
	}
	if status, answer := ready(); status != 503 || answer.Ready || answer.Note != "a note" {
		t.Errorf("before it runs: %d, %+v", status, answer)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	until(t, func() bool { _, a := ready(); return a.Ready && a.Listener.Mode == "connected" })
	for _, loop := range []string{"heartbeat", "claim", "due"} {
		until(t, func() bool { _, a := ready(); _, there := a.LastWork[loop]; return there })
	}
	if _, a := ready(); a.Server.NotifyQueue != 0.5 || a.Server.Oldest == nil || a.Server.Oldest.PID != 4711 || !strings.Contains(strings.Join(a.Problems, " "), "notifications fills up") {
		t.Errorf("the queue of notifications and who keeps it: %+v, %q", a.Server, a.Problems)
	}
	away.Store(true)
	until(t, func() bool {
		_, a := ready()
		return !a.Ready && strings.Contains(strings.Join(a.Problems, " "), "database: away")
	})
	away.Store(false)
	until(t, func() bool { _, a := ready(); return a.Ready })
	health.Stop()
	if status, answer := ready(); status != 503 || !strings.HasSuffix(strings.Join(answer.Problems, " "), " stopping") {
		t.Errorf("while it stops: %d, %+v", status, answer)
	}
	recorder := httptest.NewRecorder()
	health.Alive(recorder, httptest.NewRequest("GET", "/healthz", nil))
	if recorder.Code != 200 {
		t.Errorf("alive: %d", recorder.Code)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// until waits for something to come true.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute")
		}
		<-time.After(10 * time.Millisecond)
	}
}
