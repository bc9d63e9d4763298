package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// record is a line of an app's journal.
type record struct {
	Event string `json:"event"` // begin, end, refused, overlap
	Key   string `json:"key"`
	ID    int64  `json:"id"`
	Token int64  `json:"token"`
	N     int    `json:"n"` // the payload
}

// app is a server that does its jobs slowly, a thread each, and keeps a journal.
// It never looks whether its caller is still there.
type app struct {
	journal *os.File
	work    time.Duration

	mu     sync.Mutex
	tokens map[string]int64 // the greatest by key
	atWork map[string]int   // jobs by key
}

// runApp is the app as a process: journal, port file, duration of a job.
func runApp(ctx context.Context, args []string) error {
	work, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	a := &app{work: work, tokens: map[string]int64{}, atWork: map[string]int{}}
	for _, r := range readJournal(args[0]) {
		a.tokens[r.Key] = max(a.tokens[r.Key], r.Token)
	}
	if a.journal, err = os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1], []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	server := &http.Server{Handler: a}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println("ready")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var at record
	at.Key = r.Header.Get("Lockstep-Ordering-Key")
	at.ID, _ = strconv.ParseInt(r.Header.Get("Webhook-Id"), 10, 64)
	at.Token, _ = strconv.ParseInt(r.Header.Get("Lockstep-Fencing-Token"), 10, 64)
	_ = json.Unmarshal(body, &at.N)
	if !a.begin(at) {
		w.Header().Set("Lockstep-Fencing-Token", strconv.FormatInt(at.Token+1, 10))
		w.WriteHeader(http.StatusConflict)
		return
	}
	<-time.After(a.work)
	a.end(at)
}

// begin refuses a token smaller than one seen before.
func (a *app) begin(at record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at.Token < a.tokens[at.Key] {
		a.write("refused", at)
		return false
	}
	a.tokens[at.Key] = at.Token
	if a.atWork[at.Key]++; a.atWork[at.Key] > 1 {
		a.write("overlap", at)
	}
	a.write("begin", at)
	return true
}

func (a *app) end(at record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.atWork[at.Key]--
	a.write("end", at)
}

func (a *app) write(event string, at record) {
	at.Event = event
	line, _ := json.Marshal(at)
	_, _ = a.journal.Write(append(line, '\n'))
}

// readJournal reads all whole lines of a journal; none if there is no file.
func readJournal(name string) (all []record) {
	content, _ := os.ReadFile(name)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

func count(all []record, event string) (n int) {
	for _, r := range all {
		if r.Event == event {
			n++
		}
	}
	return n
}

// judge sees that each key's jobs were begun one at a time and in order, a
// repetition being of the last one only, and that none is missing.
func judge(t *testing.T, all []record, keys, perKey int) {
	t.Helper()
	last := map[string]int{}
	for _, r := range all {
		switch {
		case r.Event == "overlap":
			t.Errorf("key %s: job %d began while another was at work", r.Key, r.N)
		case r.Event != "begin":
		case r.N != last[r.Key] && r.N != last[r.Key]+1:
			t.Errorf("key %s: job %d began after job %d", r.Key, r.N, last[r.Key])
		default:
			last[r.Key] = r.N
		}
	}
	if len(last) != keys {
		t.Errorf("%d keys, want %d", len(last), keys)
	}
	for key, n := range last {
		if n != perKey {
			t.Errorf("key %s came to job %d of %d", key, n, perKey)
		}
	}
}

// address waits for the port of an app that was started.
func address(t *testing.T, file string) string {
	t.Helper()
	var text string
	until(t, "the app tells its port", func() bool {
		content, _ := os.ReadFile(file)
		text = strings.TrimSpace(string(content))
		return text != ""
	})
	return text
}
