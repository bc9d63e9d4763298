package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// binary is the program, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockstep-cli-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "lockstep")
	if output, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(string(output))
	}
	return testdb.Main(m)
}

// result is what a run of the program came to.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the program in this process.
type call struct {
	ctx   context.Context
	stdin string
	env   map[string]string
}

func (c call) run(t *testing.T, args ...string) result {
	t.Helper()
	if c.ctx == nil {
		c.ctx = t.Context()
	}
	var stdout, stderr bytes.Buffer
	code := run(c.ctx, args, strings.NewReader(c.stdin), &stdout, &stderr, func(name string) string { return c.env[name] })
	return result{code, stdout.String(), stderr.String()}
}

// on is a call whose database is given by the environment.
func on(db *testdb.DB) call {
	return call{env: map[string]string{"LOCKSTEP_DATABASE_URL": db.URL}}
}

// want checks an exit code and what standard error has to say, and returns r.
func (r result) want(t *testing.T, code int, says ...string) result {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code = %d, want %d; stderr:\n%s", r.code, code, r.stderr)
	}
	for _, text := range says {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr does not say %q:\n%s", text, r.stderr)
		}
	}
	return r
}

// write makes a file for a test and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func jobCount(t *testing.T, db *testdb.DB) int {
	t.Helper()
	return testdb.Value[int](t, db, "select count(*) from lockstep.job")
}
