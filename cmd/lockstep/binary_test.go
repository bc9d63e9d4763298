package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// command is the built program; of the variables it heeds it gets only env.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PG") || strings.HasPrefix(entry, "LOCKSTEP_")
	})
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestBinaryTakesThePGVariables(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	server := testdb.Server(t)
	env := []string{
		"PGHOST=" + server.Host(), "PGPORT=" + strconv.Itoa(server.Port()),
		"PGUSER=postgres", "PGDATABASE=" + db.Name, "PGSSLMODE=disable",
	}
	finish(t, command(t, env, "enqueue", "--kind", "k")).want(t, exitOK)
	if n := jobCount(t, db); n != 1 {
		t.Errorf("%d jobs in the database of the PG* variables, want 1", n)
	}
	finish(t, command(t, append(env, "PGPORT=none"), "enqueue", "--kind", "k")).want(t, exitUsage, "the PG* variables", "port")
}

func TestBinaryEnqueuesFromAPipe(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	cmd := command(t, nil, "enqueue", "--database-url", db.URL, "--file", "-")
	cmd.Stdin = strings.NewReader(manyLines(3, 0))
	if r := finish(t, cmd).want(t, exitOK); strings.Count(r.stdout, "\n") != 3 {
		t.Errorf("stdout = %q, want three ids", r.stdout)
	}
	cmd = command(t, nil, "enqueue", "--database-url", db.URL, "--file", "-")
	cmd.Stdin = strings.NewReader(manyLines(3, 2))
	finish(t, cmd).want(t, exitRefused, "standard input:2: priority")
	if n := jobCount(t, db); n != 3 {
		t.Errorf("%d jobs, want 3", n)
	}
}

// silentServer accepts connections and never answers.
func silentServer(t *testing.T) (address string, accepted <-chan net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 1)
	go func() {
		defer close(conns)
		if conn, err := listener.Accept(); err == nil {
			conns <- conn
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String(), conns
}

// processArguments are what every user of the machine can see of a process.
func processArguments(t *testing.T, pid int) string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil { // not Linux
		content, err = exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	}
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

func TestBinaryKeepsThePasswordFromTheProcessList(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"migrate", "status", "--database-url", "postgres://u:" + secret + "@%/db?sslmode=disable"},
		{"migrate", "status", "--database-url=postgres://u@%/db?sslmode=disable&password=" + secret},
		{"enqueue", "--kind", "k", "--database-url", "postgres://u:" + secret + "@%/db?sslmode=disable"},
		{"status", "--database-url", "postgres://u:" + secret + "@%/db?sslmode=disable", "--", "-7"},
		{
			"run", "--migrate", "--push", "http://127.0.0.1:1/", "--database-url", "postgres://u@%/db?sslmode=disable",
			"--listen-database-url", "postgres://u:" + secret + "@%/db?sslmode=disable",
		},
	} {
		address, accepted := silentServer(t)
		for i, arg := range args {
			args[i] = strings.Replace(arg, "%", address, 1)
		}
		cmd := command(t, nil, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		conn := <-accepted // it connects, so its arguments are what they stay
		listed := processArguments(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if conn != nil {
			_ = conn.Close()
		}
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
			t.Errorf("exit code after an interrupt = %d, want %d; stderr: %s", code, exitInterrupted, stderr.String())
		}
		if !strings.Contains(listed, args[0]) || strings.Contains(listed, secret) {
			t.Errorf("the process list has %q", listed)
		}
		if strings.Contains(stderr.String(), secret) {
			t.Errorf("the password is shown: %s", stderr.String())
		}
	}
}

func TestBinaryNamesTheFlagWhoseURLHeldAPassword(t *testing.T) {
	t.Parallel()
	url := "postgres://u:" + secret + "@%2Fnowhere/db"
	r := finish(t, command(t, nil, "migrate", "status", "--database-url", url)).want(t, exitUnreachable, "--database-url: ")
	if strings.Contains(r.stderr, urlVariable) {
		t.Errorf("a variable is named that nobody set: %s", r.stderr)
	}
	finish(t, command(t, []string{urlVariable + "=" + url}, "migrate", "status")).want(t, exitUnreachable, urlVariable+": ")
}

func TestBinaryDemoIsRemovedOnInterrupt(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil, "demo", "--length", "1m")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var dir string
	for lines.Scan() && !strings.Contains(lines.Text(), "enqueued") {
		if _, after, found := strings.Cut(lines.Text(), "private PostgreSQL in "); found {
			dir, _, _ = strings.Cut(after, ",")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); dir == "" || err != nil {
		t.Fatalf("no private server while the demo runs: %q, %v; stderr: %s", dir, err, stderr.String())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "lost") {
			t.Error("an interrupted demo reports a verdict")
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code = %d, want %d; stderr: %s", code, exitInterrupted, stderr.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %s is still there: %v", dir, err)
	}
}

func TestBinaryDemoIsRemovedWhenNobodyReadsIt(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	cmd := command(t, nil, "demo", "--length", "1m", "--database-url", db.URL)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.Contains(line, "dropped at the end") {
		t.Errorf("%q, %v", line, err)
	}
	_ = stdout.Close()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(stderr.String(), "nobody reads") {
		t.Errorf("exit code = %d, want %d; stderr: %s", code, exitFailure, stderr.String())
	}
	if n := testdb.Value[int](t, db, "select count(*) from pg_namespace where nspname like 'lockstep\\_demo%'"); n > 0 {
		t.Errorf("%d schemas are left", n)
	}
}
