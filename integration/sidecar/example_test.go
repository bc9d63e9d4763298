package sidecar

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

const secret = "whsec_c2VjcmV0IGtleSBmb3Igc2lnbmluZw=="

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestExampleApps: the apps of the documentation take signed pushes, and refuse
// what is not signed, or comes late.
func TestExampleApps(t *testing.T) {
	t.Parallel()
	for program, file := range map[string]string{"python3": "app.py", "node": "app.mjs"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			address := freeAddress(t)
			cmd := exec.Command(program, "../../docs/examples/"+file, address[strings.LastIndexByte(address, ':')+1:])
			cmd.Env = append(os.Environ(), "LOCKSTEP_SECRET="+secret)
			workerproc.StartCommand(t, file, cmd)
			until(t, "the app answers", func() bool { status, _ := get("http://" + address); return status > 0 })
			db := testdb.New(t)
			run(t, db, "--push", "http://"+address+"/jobs", "--push-secret-file", secretFile(t, secret))
			db.Exec(t, `select lockstep.enqueue('k', jsonb_build_object('n', i), ordering_key => 'ü') from generate_series(1, 5) i`)
			drained(t, db)
			expect(t, db, 5, "jobs completed with what the app answered", `count(*) from lockstep.jobs where state = 'completed' and result -> 'done' = payload`)
			refusesOthers(t, db, "http://"+address+"/jobs")
		})
	}
}

// refusesOthers pushes with the signature of another, and with a fence that the
// app has seen a greater one than.
func refusesOthers(t *testing.T, db *testdb.DB, url string) {
	t.Helper()
	post := func(change func(http.Header)) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		signPush(t, request.Header, []byte("{}"))
		request.Header.Set("Lockstep-Queue", "default")
		request.Header.Set("Lockstep-Ordering-Key", "%C3%BC")
		change(request.Header)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		return response.StatusCode
	}
	last := testdb.Value[int](t, db, "select max(fence) from lockstep.jobs")
	fence := func(n int) func(http.Header) {
		return func(h http.Header) { h.Set("Lockstep-Fencing-Token", strconv.Itoa(n)) }
	}
	for want, change := range map[int]func(http.Header){
		200: fence(last + 1),
		401: func(h http.Header) { fence(last + 2)(h); h.Set("Webhook-Id", "2") },
	} {
		if status := post(change); status != want {
			t.Errorf("answered %d, want %d", status, want)
		}
	}
	if status := post(fence(last)); status != 409 {
		t.Errorf("a stale fence is answered with %d, want 409", status)
	}
	for _, part := range []string{"Lockstep-Queue", "Lockstep-Tenant"} {
		if status := post(func(h http.Header) { fence(last)(h); h.Set(part, "other") }); status != 200 {
			t.Errorf("a fence that is smaller than another lane's, by its %s, is answered with %d, want 200", part, status)
		}
	}
	if status := post(func(h http.Header) { h.Set("Webhook-Timestamp", "1700000000") }); status != 401 {
		t.Errorf("an old push is answered with %d, want 401", status)
	}
}

// TestSettingsInTheDocumentation: the example's file is sound, and the commands
// of docs/run.md and docs/push.md are commands.
func TestSettingsInTheDocumentation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	output, err := exec.Command(program(), "config", "example").Output()
	if err == nil {
		err = os.WriteFile(file, output, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(program(), "config", "check", "--config", file).CombinedOutput(); err != nil {
		t.Errorf("the example is refused: %s", output)
	}
	commands := regexp.MustCompile(`(?m)^    lockstep (.*)$`)
	found := 0
	for _, page := range []string{"run.md", "push.md"} {
		content, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commands.FindAllStringSubmatch(string(content), -1) {
			found++
			args := strings.Fields(strings.ReplaceAll(line[1], `"$DATABASE_URL"`, "postgres://127.0.0.1:1/x"))
			output, err := exec.Command(program(), append(args, "--no-such-flag")...).CombinedOutput()
			if err == nil || !strings.Contains(string(output), "unknown flag --no-such-flag") {
				t.Errorf("%s: %s is not understood: %s", page, line[1], output)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d commands were found", found)
	}
}
