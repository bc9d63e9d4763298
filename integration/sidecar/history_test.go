package sidecar

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// change is one event of a history: a file of a repository got other content.
type change struct {
	Path string  `json:"path"`
	Prev *string `json:"prev"`
	Blob *string `json:"blob"`
}

const (
	smallHistory = "../testdata/history"
	largeHistory = "../../../shared/data/pgx-history"
)

// TestHistoryThroughPush: a real history through HTTP push to a server that
// applies its changes; each meets the content before it, and the tree at the end
// is that of the history.
func TestHistoryThroughPush(t *testing.T) {
	t.Parallel()
	historyThroughPush(t, func(_ *sidecar, db *testdb.DB, prefix string) int { return enqueueHistory(t, db, prefix) })
}

// TestHistoryThroughTheAPI: the same, enqueued by one request.
func TestHistoryThroughTheAPI(t *testing.T) {
	t.Parallel()
	historyThroughPush(t, func(car *sidecar, _ *testdb.DB, prefix string) int { return postHistory(t, car, prefix) })
}

// historyThroughPush enqueues a history while it is worked on, and judges.
func historyThroughPush(t *testing.T, enqueue func(car *sidecar, db *testdb.DB, prefix string) int) {
	t.Helper()
	prefix := smallHistory
	if _, err := os.Stat(largeHistory + ".ndjson"); err == nil {
		prefix = largeHistory
	}
	tree := &tree{blobs: map[string]string{}, seen: map[string]bool{}}
	server := httptest.NewServer(tree)
	t.Cleanup(server.Close)
	db := testdb.New(t)
	car := run(t, db, "--push", server.URL+"/jobs", "--queue", "default=50", "--poll", "10m")
	n := enqueue(car, db, prefix)
	drained(t, db)
	for _, problem := range tree.problems {
		t.Error(problem)
	}
	compare(t, prefix, tree.blobs)
	expect(t, db, n, "jobs completed in their first attempt", "count(*) from lockstep.jobs where state = 'completed' and attempt = 1")
}

// TestHistoryThroughCommand: the same by a program per change.
func TestHistoryThroughCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	apply := filepath.Join(dir, "apply")
	if output, err := exec.Command("go", "build", "-o", apply, "./apply").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	config := filepath.Join(dir, "lockstep.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "command:\n- args: [%q, %q]\nqueues: {default: {concurrency: 8}}\n", apply, filepath.Join(dir, "tree")), 0o600); err != nil {
		t.Fatal(err)
	}
	db := testdb.New(t)
	n := enqueueHistory(t, db, smallHistory)
	run(t, db, "--config", config, "--poll", "10m")
	drained(t, db)
	expect(t, db, n, "jobs completed in their first attempt", "count(*) from lockstep.jobs where state = 'completed' and attempt = 1")
	got := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		blob, err := os.ReadFile(filepath.Join(dir, "tree", entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[unescape(entry.Name())] = string(blob)
	}
	compare(t, smallHistory, got)
}

// tree is an app that applies changes.
type tree struct {
	mu       sync.Mutex
	blobs    map[string]string
	seen     map[string]bool
	problems []string
}

func (tr *tree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var c change
	if err != nil || json.Unmarshal(body, &c) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if id := r.Header.Get("Webhook-Id"); tr.seen[id] {
		tr.problems = append(tr.problems, "pushed twice: "+id)
	} else {
		tr.seen[id] = true
	}
	blob, there := tr.blobs[c.Path]
	if there != (c.Prev != nil) || there && blob != *c.Prev {
		tr.problems = append(tr.problems, fmt.Sprintf("%s had %q before %s", c.Path, blob, body))
	}
	delete(tr.blobs, c.Path)
	if c.Blob != nil {
		tr.blobs[c.Path] = *c.Blob
	}
}

// unescape is the path of a file that apply named.
func unescape(name string) string {
	return strings.NewReplacer("%2F", "/", "%25", "%").Replace(name)
}

// enqueueHistory enqueues a history in its order, and tells how long it is.
func enqueueHistory(t *testing.T, db *testdb.DB, prefix string) (n int) {
	t.Helper()
	if output, err := command(db, "enqueue", "--file", prefix+".ndjson").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return testdb.Value[int](t, db, "select count(*) from lockstep.jobs")
}

// postHistory sends a history to the API, and tells how long it is.
func postHistory(t *testing.T, car *sidecar, prefix string) (n int) {
	t.Helper()
	file, err := os.Open(prefix + ".ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	response, err := http.Post("http://"+car.address+"/v1/jobs/batch", "application/x-ndjson", file)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var last struct {
		Item, Items, Refused int
		Done                 bool
	}
	for lines := json.NewDecoder(response.Body); ; n++ {
		if err := lines.Decode(&last); err != nil {
			t.Fatalf("after %d answers: %v", n, err)
		}
		if last.Done {
			break
		}
	}
	if last.Items != n || last.Refused != 0 {
		t.Fatalf("%d answers, and at the end %+v", n, last)
	}
	return n
}

// compare compares a tree with the one that a history ends with.
func compare(t *testing.T, prefix string, got map[string]string) {
	t.Helper()
	file, err := os.Open(prefix + ".final.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		path, blob, _ := strings.Cut(lines.Text(), "\t")
		want[path] = blob
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the final tree differs (-want +got):\n%s", diff)
	}
}
