package sidecar

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// TestDrains overlap: together they do all the work, each job once, and stop at
// their bounds.
func TestDrains(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	var pushes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pushes.Add(1) }))
	t.Cleanup(server.Close)
	db.Exec(t, "select lockstep.enqueue('k', ordering_key => (i % 7)::text) from generate_series(1, 200) i")
	db.Exec(t, "select lockstep.enqueue('k', delay => '1 h')")
	drain := func(args ...string) (done struct {
		Attempts, Completed int
		More                bool
	},
	) {
		output, err := command(db, append([]string{"drain", "--push", server.URL, "--json"}, args...)...).Output()
		if err != nil {
			t.Errorf("%v: %s", err, output)
		}
		if err := json.Unmarshal(output, &done); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return done
	}
	if done := drain("--max-jobs", "20"); done.Attempts != 20 || done.Completed != 20 || done.More {
		t.Errorf("--max-jobs 20 did %+v", done)
	}
	results := make(chan int, 3)
	for range 3 {
		go func() { results <- drain().Completed }()
	}
	sum := <-results + <-results + <-results
	if sum != 180 || pushes.Load() != 200 {
		t.Errorf("three drains completed %d of 180 jobs in %d pushes", sum, pushes.Load())
	}
	expect(t, db, "scheduled", "what is left", "string_agg(state, ' ') from lockstep.jobs where state <> 'completed'")

	url, _, _ := gate(t)
	db.Exec(t, "select lockstep.enqueue('k')")
	output, err := command(db, "drain", "--push", url, "--max-time", "5s", "--grace", "100ms").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "1 given back; it ended before the work did") {
		t.Errorf("with a push that does not end: %v: %s", err, output)
	}
}

// TestADrainBesideACount that another process began before a job came: that one
// does not know of the job, and is newer than the request's first look.
func TestADrainBesideACount(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, open := gate(t)
	car := run(t, db, "--push", url)
	db.Exec(t, "select lockstep.count_jobs('0')")
	db.Exec(t, "update lockstep.fleet_stats set counted_at = counted_at - interval '1 hour'") // so that the next call counts
	count := db.Conn(t)
	if _, err := count.Exec(t.Context(), "begin; select lockstep.count_jobs('0')"); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "select lockstep.enqueue('k')")
	<-began
	answer := make(chan string, 1)
	go func() {
		response, err := http.Post("http://"+car.address+"/v1/drain?max_time=1s", "", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	until(t, "the drain has looked", func() bool {
		return testdb.Value[bool](t, db, `select exists (select from pg_stat_activity
			where datname = current_database() and state = 'idle' and query like 'select counted_at%')`)
	})
	if _, err := count.Exec(t.Context(), "update lockstep.fleet_stats set counted_at = clock_timestamp(), took = '20 ms'; commit"); err != nil { // it took until now
		t.Fatal(err)
	}
	if text := <-answer; !strings.Contains(text, `"more":true`) {
		t.Errorf("while a job runs: %s", text)
	}
	open()
}

// TestSignalsOfADrain end it as they end a run, SIGHUP like the others.
func TestSignalsOfADrain(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, open := gate(t)
	db.Exec(t, "select lockstep.enqueue('k')")
	patient := workerproc.StartCommand(t, "drain", command(db, "drain", "--push", url, "--grace", "1h", "--max-time", "1h"))
	<-began
	patient.Signal(t, syscall.SIGTERM)
	open()
	if code := patient.Wait(t); code != 0 {
		t.Errorf("with all handlers ended: exit code %d\n%s", code, patient.Stderr())
	}
	expect(t, db, "completed 1", "the job", "state || ' ' || attempt from lockstep.jobs")

	url, began, _ = gate(t)
	db.Exec(t, "select lockstep.enqueue('k') from generate_series(1, 2)")
	drain := workerproc.StartCommand(t, "drain", command(db, "drain", "--push", url, "--queue", "default=1", "--grace", "1h", "--max-time", "1h"))
	<-began
	first := syscall.SIGHUP
	if signal.Ignored(first) { // these tests run under nohup, and so does the drain
		first = syscall.SIGINT
	}
	drain.Signal(t, first)
	drain.Signal(t, syscall.SIGTERM)
	if code := drain.Wait(t); code != 5 {
		t.Errorf("exit code %d\n%s", code, drain.Stderr())
	}
	expect(t, db, "ready 0, ready 0", "the jobs", "string_agg(state || ' ' || attempt, ', ' order by state) from lockstep.jobs where state <> 'completed'")
}

// TestADrainWithoutADatabase ends at once and says so, rather than that nothing
// was to be done.
func TestADrainWithoutADatabase(t *testing.T) {
	t.Parallel()
	gone := &testdb.DB{URL: "postgres://postgres@" + freeAddress(t) + "/postgres?sslmode=disable"}
	drain := workerproc.StartCommand(t, "drain", command(gone, "drain", "--push", "http://127.0.0.1:1/", "--max-time", "1h"))
	if code := drain.Wait(t); code != 4 || !strings.Contains(drain.Stderr(), "connection refused") {
		t.Errorf("exit code %d\n%s", code, drain.Stderr())
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	mute := &testdb.DB{URL: "postgres://postgres@" + silent.Addr().String() + "/postgres?sslmode=disable"}
	drain = workerproc.StartCommand(t, "drain", command(mute, "drain", "--push", "http://127.0.0.1:1/", "--max-time", "1s"))
	if code := drain.Wait(t); code != 4 {
		t.Errorf("with a database that never answers: exit code %d\n%s", code, drain.Stderr())
	}
}

// TestADrainTellsOfATargetThatIsDown: its jobs are left, which is no success to
// be silent of.
func TestADrainTellsOfATargetThatIsDown(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.enqueue('k') from generate_series(1, 100)")
	target := "http://" + freeAddress(t) + "/jobs"
	output, err := command(db, "drain", "--push", target, "--push", "other=http://127.0.0.1:1/").Output()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(output)), "jobs may be left, as these targets are down: "+target) {
		t.Errorf("%v: %s", err, output)
	}
	expect(t, db, true, "jobs are left, with their attempts", "count(*) = 100 and max(attempt) = 0 from lockstep.jobs")
}
