package sidecar

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// gate is an app whose answers wait until it is opened.
func gate(t *testing.T) (url string, began <-chan struct{}, open func()) {
	t.Helper()
	begin, opened := make(chan struct{}, 1000), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begin <- struct{}{}
		select {
		case <-opened:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	var once atomic.Bool
	open = func() {
		if once.CompareAndSwap(false, true) {
			close(opened)
		}
	}
	t.Cleanup(open)
	return server.URL + "/jobs", begin, open
}

// TestSIGTERM: not ready at once, what runs may end, and the exit code is 0.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, open := gate(t)
	car := run(t, db, "--push", url, "--queue", "default=1")
	db.Exec(t, "select lockstep.enqueue('k') from generate_series(1, 2)")
	<-began
	car.Signal(t, syscall.SIGTERM)
	until(t, "it says that it is stopping", func() bool {
		status, body := get("http://" + car.address + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "stopping")
	})
	if status, _ := get("http://" + car.address + "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d while it ends", status)
	}
	open()
	if code := car.Wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, car.Stderr())
	}
	expect(t, db, "completed 1, ready 0", "the jobs", "string_agg(state || ' ' || attempt, ', ' order by state) from lockstep.jobs")
}

// TestSecondSIGTERM ends the grace: the push is cut off, its job given back, and
// the exit code says so.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, _ := gate(t)
	car := run(t, db, "--push", url, "--grace", "1h")
	db.Exec(t, "select lockstep.enqueue('k')")
	<-began
	car.Signal(t, syscall.SIGTERM)
	until(t, "it is stopping", func() bool {
		status, _ := get("http://" + car.address + "/readyz")
		return status == http.StatusServiceUnavailable
	})
	car.Signal(t, syscall.SIGTERM)
	if code := car.Wait(t); code != 5 || !strings.Contains(car.Stderr(), "handlers were cut off: 1 ") {
		t.Errorf("exit code %d\n%s", code, car.Stderr())
	}
	expect(t, db, "ready 0", "the job", "state || ' ' || attempt from lockstep.jobs")
}

// TestEndLongAfterALostLease: what was cut off in the middle of a run, and has run
// since, is nothing that the end cuts off.
func TestEndLongAfterALostLease(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, open := gate(t)
	car := run(t, db, "--push", url, "--lease", "1s")
	db.Exec(t, "select lockstep.enqueue('k')")
	<-began
	car.Signal(t, syscall.SIGSTOP)
	<-time.After(1500 * time.Millisecond)
	car.Signal(t, syscall.SIGCONT)
	<-began
	open()
	drained(t, db)
	car.Signal(t, syscall.SIGTERM)
	if code := car.Wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, car.Stderr())
	}
}

// TestNoProgramIsLeft: a program that does not end when it is told to is killed
// before its job is given back, however long it was allowed to take.
func TestNoProgramIsLeft(t *testing.T) {
	t.Parallel()
	db, dir := testdb.New(t), t.TempDir()
	config, pid := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "pid")
	script := "trap '' TERM; echo $$ > " + pid + ".new; mv " + pid + ".new " + pid + "; while :; do sleep 0.1; done"
	if err := os.WriteFile(config, fmt.Appendf(nil, "command:\n- args: [sh, -c, %q]\n  kill_after: 6s\n", script), 0o600); err != nil {
		t.Fatal(err)
	}
	car := run(t, db, "--config", config, "--grace", "1ms")
	db.Exec(t, "select lockstep.enqueue('k')")
	var running int
	until(t, "the program runs", func() bool {
		text, _ := os.ReadFile(pid)
		running, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return running > 1
	})
	car.Signal(t, syscall.SIGTERM)
	if code := car.Wait(t); code != 5 {
		t.Errorf("exit code %d\n%s", code, car.Stderr())
	}
	if err := syscall.Kill(running, syscall.SIGKILL); err == nil {
		t.Error("the program still ran when the sidecar had ended")
	}
	expect(t, db, "ready 0", "the job", "state || ' ' || attempt from lockstep.jobs")
}

// TestDatabaseAway: the process stays alive, says that it is not ready, and
// works again by itself.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	url, began, open := gate(t)
	open()
	db := &testdb.DB{URL: server.URL("postgres")}
	car := run(t, db, "--migrate", "--push", url, "--lease", "1s")
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it is not ready", func() bool {
		status, body := get("http://" + car.address + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "database: ")
	})
	if status, _ := get("http://" + car.address + "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	if err := server.StartAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it is ready again", func() bool {
		status, _ := get("http://" + car.address + "/readyz")
		return status == http.StatusOK
	})
	if output, err := command(db, "enqueue", "--kind", "k").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	select {
	case <-began:
	case <-time.After(patience):
		t.Error("no push after the database came back")
	}
}

// TestDev: without a database it refuses and names what to give; --dev starts
// one of its own in a folder that is kept, and says so.
func TestDev(t *testing.T) {
	t.Parallel()
	url, began, open := gate(t)
	open()
	none := command(&testdb.DB{}, "run", "--push", url)
	if output, err := none.CombinedOutput(); err == nil || !strings.Contains(string(output), "--database-url") || !strings.Contains(string(output), "LOCKSTEP_DATABASE_URL") {
		t.Errorf("without a database: %v: %s", err, output)
	}
	parent, err := os.MkdirTemp("", "lockstep-dev-") // t.TempDir is closed to the user that root's server runs as
	if err == nil {
		err = os.Chmod(parent, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	dir := filepath.Join(parent, "dev")
	for range 2 { // again in the same folder
		car := &sidecar{address: freeAddress(t)}
		car.Process = workerproc.StartCommand(t, "sidecar", command(&testdb.DB{}, "run", "--dev", "--dev-dir", dir, "--push", url, "--listen", car.address))
		body := ""
		until(t, "it is ready", func() (ready bool) {
			var status int
			status, body = get("http://" + car.address + "/readyz")
			return status == http.StatusOK
		})
		note := "development: a private PostgreSQL in " + dir
		if !strings.Contains(body, note) || !strings.Contains(car.Stderr(), note) {
			t.Errorf("it does not say that it is for development: %s\n%s", body, car.Stderr())
		}
		db := &testdb.DB{URL: devURL(t, car)}
		if output, err := command(db, "enqueue", "--kind", "k").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		<-began
		car.Signal(t, syscall.SIGTERM)
		if code := car.Wait(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, car.Stderr())
		}
	}
}

// devURL is the database that the log names.
func devURL(t *testing.T, car *sidecar) string {
	t.Helper()
	for _, line := range logLines(t, car.Stderr()) {
		if url, ok := line["url"].(string); ok {
			return url
		}
	}
	t.Fatalf("no url in the log:\n%s", car.Stderr())
	return ""
}

// TestConnections: two hundred pushes at a time need no more connections than
// one.
func TestConnections(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	url, began, open := gate(t)
	car := run(t, db, "--push", url, "--queue", "default=200", "--push-parallel", "200")
	db.Exec(t, "select lockstep.enqueue('k', ordering_key => nullif(i % 2, 0)::text || i) from generate_series(1, 200) i")
	for range 200 {
		<-began
	}
	get("http://" + car.address + "/metrics")
	expect(t, db, true, "at most 6 connections", "count(*) <= 6 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name like 'lockstep%'")
	open()
	drained(t, db)
}

// TestNothingSecretIsToldOrLogged: not the payload, the password, a push secret.
func TestNothingSecretIsToldOrLogged(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Lockstep-Kind") == "junk" { // and more than was announced
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}MARKER")
				_ = conn.Close()
			}
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "MARKER again")
	}))
	t.Cleanup(server.Close)
	cmd := command(&testdb.DB{URL: strings.Replace(db.URL, "postgres@", "postgres:MARKER@", 1)},
		"run", "--log-level", "debug", "--push", server.URL+"/jobs?key=MARKER", "--push-secret-file", secretFile(t, "TUFSS0VSTUFSS0VS"))
	address := freeAddress(t)
	cmd.Args = append(cmd.Args, "--listen", address)
	car := &sidecar{Process: workerproc.StartCommand(t, "sidecar", cmd), address: address}
	db.Exec(t, `select lockstep.enqueue('k', '{"card": "MARKER"}', ordering_key => 'MARKER')`)
	db.Exec(t, "select lockstep.enqueue('junk')")
	drained(t, db)
	until(t, "what came out of turn is told", func() bool { return strings.Contains(car.Stderr(), "Unsolicited response") })
	_ = logLines(t, car.Stderr())
	_, ready := get("http://" + address + "/readyz")
	_, metrics := get("http://" + address + "/metrics")
	car.Signal(t, syscall.SIGTERM)
	car.Wait(t)
	if !strings.Contains(car.Stderr(), "answered 400") || !strings.Contains(metrics, `lockstep_attempts_total{handler="*",outcome="dead"} 1`) {
		t.Errorf("it is not told what happened:\n%s\n%s", car.Stderr(), metrics)
	}
	for name, text := range map[string]string{"log": car.Stderr(), "readiness": ready, "metrics": metrics} {
		for _, secret := range []string{"MARKER", "TUFSS0VS"} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s has %s: …%s", name, secret, text[max(0, at-200):at+len(secret)])
			}
		}
	}
}
