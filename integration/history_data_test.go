package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// change is one event of a history: a file of a repository got other content.
type change struct {
	Seq  int64   `json:"seq"`
	Path string  `json:"path"`
	Op   string  `json:"op"`
	Prev *string `json:"prev"` // content before; nil: the file was not there
	Blob *string `json:"blob"` // content after; nil: it is gone
}

// event is a line of a history: a job to enqueue.
type event struct {
	Kind        string          `json:"kind"`
	OrderingKey string          `json:"ordering_key"`
	Payload     json.RawMessage `json:"payload"`
}

// historyPrefix finds the history to replay: the one LOCKSTEP_HISTORY names,
// the large one if its folder is about, else our own small one.
func historyPrefix() string {
	if prefix := os.Getenv("LOCKSTEP_HISTORY"); prefix != "" {
		return prefix
	}
	const shared = "../../shared/data/pgx-history"
	if _, err := os.Stat(shared + ".ndjson"); err == nil {
		return shared
	}
	return "testdata/history"
}

func readHistory(t *testing.T, prefix string) []event {
	t.Helper()
	var events []event
	eachLine(t, prefix+".ndjson", func(line string) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %d: %v", len(events)+1, err)
		}
		events = append(events, e)
	})
	return events
}

// readTree reads the tree that a history ends with: content by path.
func readTree(t *testing.T, prefix string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	eachLine(t, prefix+".final.tsv", func(line string) {
		path, blob, found := strings.Cut(line, "\t")
		if !found {
			t.Fatalf("%s.final.tsv: no tab in %q", prefix, line)
		}
		tree[path] = blob
	})
	return tree
}

func eachLine(t *testing.T, name string, fn func(line string)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fn(lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
