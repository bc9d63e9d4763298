package sidecar

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// block is one of a page's: commands, and after them what they print.
var block = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")

// noted has every answer noted whole, with its status and how long it took: of
// one that is not as the page has it, the commands print next to nothing.
const noted = `curl() {
	command curl -S -w '%{stderr}\n^ %{http_code} after %{time_total} s: %{method} %{url_effective}\n' "$@" 2>>"$NOTES" | tee -a "$NOTES"
}
`

// TestCommandsOfTheHTTPPage runs them, as one script, and compares what each
// prints with the page.
func TestCommandsOfTheHTTPPage(t *testing.T) {
	t.Parallel()
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payload struct{ To string }
		_ = json.NewDecoder(r.Body).Decode(&payload)
		if payload.To == "broken" {
			once.Do(func() { w.WriteHeader(http.StatusBadRequest) })
		}
	}))
	t.Cleanup(server.Close)
	db := testdb.New(t)
	car := run(t, db, "--push", server.URL+"/jobs")
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, expected strings.Builder
	script.WriteString("set -eu\n" + noted)
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		if b[1] == "sh" {
			script.WriteString(b[2])
		} else {
			expected.WriteString(b[2])
		}
	}
	cmd := exec.Command("sh", "-c", script.String())
	notes := filepath.Join(t.TempDir(), "notes")
	cmd.Env = append(os.Environ(), "LOCKSTEP=http://"+car.address, "NOTES="+notes)
	output, err := cmd.CombinedOutput()
	if err != nil || string(output) != expected.String() {
		answers, _ := os.ReadFile(notes)
		t.Errorf("%v; it prints\n%s\nwant\n%s\nthe answers were\n%s", err, output, expected.String(), answers)
	}
	if n := strings.Count(expected.String(), "\n"); n < 12 {
		t.Errorf("only %d lines are compared", n)
	}
}

// TestC98OpenAdmin: a default start is not to be reached from elsewhere, another
// address is refused without a token, and with one everything but health asks
// for it.
func TestC98OpenAdmin(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	if output, err := exec.Command(program(), "config", "check", "--push", "http://127.0.0.1:1/").CombinedOutput(); err != nil {
		t.Errorf("the default: %s", output)
	}
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		for _, args := range [][]string{{"run"}, {"config", "check"}} {
			args = append(args, "--push", "http://127.0.0.1:1/", "--listen", listen)
			output, err := command(db, args...).CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--api-token-file") || !strings.Contains(string(output), "--listen") {
				t.Errorf("%s: %v: %s", args, err, output)
			}
		}
	}
	for token, says := range map[string]string{"short": "5 bytes long", "has a space in it somewhere": "spaces"} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := command(db, "run", "--push", "http://127.0.0.1:1/", "--api-token-file", file).CombinedOutput()
		if err == nil || !strings.Contains(string(output), says) || strings.Contains(string(output), token) {
			t.Errorf("%q: %v: %s", token, err, output)
		}
	}
	address := freeAddress(t)
	workerproc.StartCommand(t, "sidecar", command(db, "run", "--push", "http://127.0.0.1:1/", "--api-token-file", secretFile(t, "a-token-to-be-kept-secret"),
		"--listen", strings.Replace(address, "127.0.0.1", "0.0.0.0", 1)))
	until(t, "the sidecar is ready", func() bool { status, _ := get("http://" + address + "/readyz"); return status == http.StatusOK })
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 401, "/openapi.json": 401, "/v1/jobs": 401, "/v1/dead": 401,
		"/v1//jobs": 401, "//v1/jobs": 401, "/v1/./jobs": 401, "/v1": 401, "/": 401, "/x/../healthz": 401,
	} {
		if status, body := get("http://" + address + path); status != want || want == 401 && path != "/metrics" && !strings.HasPrefix(body, `{"title"`) {
			t.Errorf("%s answered %d, want %d: %s", path, status, want, body)
		}
	}
}

// TestTheAPITellsNoSecrets: a payload, a token and the password are in no log,
// error or metric.
func TestTheAPITellsNoSecrets(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(server.Close)
	address := freeAddress(t)
	cmd := command(&testdb.DB{URL: strings.Replace(db.URL, "postgres@", "postgres:MARKER@", 1)},
		"run", "--log-level", "debug", "--push", server.URL, "--listen", address)
	cmd.Env = append(cmd.Env, "LOCKSTEP_API_TOKEN=MARKER-and-some-more", "LOCKSTEP_API_READ_TOKEN=MARKER-and-more-to-read")
	car := &sidecar{Process: workerproc.StartCommand(t, "sidecar", cmd), address: address}
	until(t, "the sidecar is ready", func() bool { status, _ := get("http://" + address + "/readyz"); return status == http.StatusOK })
	ask := func(method, path, body, token string) string {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var content strings.Builder
		if err := response.Write(&content); err != nil {
			t.Fatal(err)
		}
		return content.String()
	}
	const token = "MARKER-and-some-more"
	told := map[string]string{
		"no token":    ask("GET", "/v1/jobs", "", "MARKER"),
		"read":        ask("POST", "/v1/jobs", `{"kind": "k"}`, "MARKER-and-more-to-read"),
		"broken":      ask("POST", "/v1/jobs", `{"kind": "k", "payload": "MARKER`, token),
		"wrong":       ask("POST", "/v1/jobs", `{"payload": "MARKER"}`, token),
		"batch":       ask("POST", "/v1/jobs/batch", `[{"kind": "k", "payload": "MARKER", "priority": 99}]`, token),
		"new":         ask("POST", "/v1/jobs", `{"kind": "k", "payload": {"card": "MARKER"}}`, token),
		"description": ask("GET", "/openapi.json", "", token),
	}
	drained(t, db)
	told["list"] = ask("GET", "/v1/jobs", "", token)
	told["dead letters"] = ask("GET", "/v1/dead", "", token)
	told["metrics"] = ask("GET", "/metrics", "", "MARKER-and-more-to-read")
	car.Signal(t, syscall.SIGTERM)
	car.Wait(t)
	told["log"] = car.Stderr()
	for name, text := range told {
		if at := strings.Index(text, "MARKER"); at >= 0 {
			t.Errorf("%s tells it: …%s", name, text[max(0, at-200):at+6])
		}
	}
	if !strings.Contains(told["metrics"], "lockstep_") || !strings.Contains(told["list"], `"dead"`) || !strings.Contains(told["new"], "201 Created") {
		t.Errorf("it is not as it should be: %s", told)
	}
}
