package sidecar

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	workerproc.Register("app", runApp)
	code := workerproc.Main(m)
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the program, once a test needs it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func program() string {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "lockstep-sidecar-"); built.err == nil {
			var output []byte
			output, built.err = exec.Command("go", "build", "-o", built.dir, "../../cmd/lockstep").CombinedOutput()
			if built.err != nil {
				built.err = fmt.Errorf("%w: %s", built.err, output)
			}
		}
	})
	if built.err != nil {
		panic(built.err)
	}
	return filepath.Join(built.dir, "lockstep")
}

// patience is how long a test waits for what must happen before it fails.
const patience = time.Minute

// sidecar is a process of lockstep run.
type sidecar struct {
	*workerproc.Process
	address string
}

// command is the program with a database and no other variables of ours.
func command(db *testdb.DB, args ...string) *exec.Cmd {
	cmd := exec.Command(program(), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PG") || strings.HasPrefix(entry, "LOCKSTEP_")
	})
	cmd.Env = append(cmd.Env, "LOCKSTEP_DATABASE_URL="+db.URL)
	return cmd
}

// run starts lockstep run and waits until it is ready.
func run(t *testing.T, db *testdb.DB, args ...string) *sidecar {
	t.Helper()
	cmd := command(db, append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	s := &sidecar{Process: workerproc.StartCommand(t, "sidecar", cmd)}
	until(t, "the sidecar listens", func() bool {
		select {
		case <-s.Done():
			t.Fatal("the sidecar ended")
		default:
		}
		if at := listening.FindStringSubmatch(s.Stderr()); at != nil {
			s.address = at[1]
		}
		return s.address != ""
	})
	until(t, "the sidecar is ready", func() bool {
		status, _ := get("http://" + s.address + "/readyz")
		return status == http.StatusOK
	})
	return s
}

// listening is what a sidecar logs of its address.
var listening = regexp.MustCompile(`"msg":"listening","address":"([^"]+)"`)

// freeAddress is one on loopback that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get fetches a page; status 0 if it can't be had.
func get(url string) (status int, body string) {
	client := http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(content)
}

// until waits for something to come true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// drained waits until no job is left.
func drained(t *testing.T, db *testdb.DB) {
	t.Helper()
	until(t, "all jobs have ended", func() bool { return testdb.Value[int](t, db, "select count(*) from lockstep.job") == 0 })
}

// expect compares one value from the database.
func expect[T comparable](t *testing.T, db *testdb.DB, want T, what, sql string) {
	t.Helper()
	if got := testdb.Value[T](t, db, "select "+sql); got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// logLines are the lines of a log as JSON.
func logLines(t *testing.T, text string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, values)
	}
	return lines
}
