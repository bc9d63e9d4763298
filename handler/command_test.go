//go:build unix

package handler_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// shell is a Command that runs a script.
func (r *rig) shell(script string, c handler.CommandConfig) *handler.Command {
	r.Helper()
	c.Args = []string{"sh", "-c", script}
	command, err := handler.NewCommand(c)
	if err != nil {
		r.Fatal(err)
	}
	return command
}

func TestCommandOutcomes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	big := strings.Repeat("x", 100)
	for script, want := range map[string]struct{ fate, note string }{
		"cat":                              {`completed 1 {"n": 9007199254740993.10}`, ""},
		"true":                             {"completed 1", ""},
		`echo "no JSON"`:                   {`completed 1 "no JSON\n"`, ""},
		`printf '\377\376\0'`:              {`completed 1 "\uFFFD\uFFFD"`, ""},
		"exit 75":                          {"retrying 1", "command sh: exit status 75"},
		"echo why >&2; exit 65":            {"dead 1", "command sh: exit status 65: why"},
		"printf 'a\\377' >&2; exit 1":      {"retrying 1", "command sh: exit status 1: a\uFFFD"},
		"kill -9 $$":                       {"retrying 1", "command sh: signal: killed"},
		"yes " + big + " | head -c 100000": {`completed 1 {"note": "the answer was dropped: it is longer than 65536 bytes"}`, ""},
		"yes " + big + " | head -c 5000 >&2; exit 3": {"retrying 1", "command sh: exit status 3: " + big},
		`printf "$LOCKSTEP_KIND $LOCKSTEP_ATTEMPT/$LOCKSTEP_MAX_ATTEMPTS $EXTRA"; test "$LOCKSTEP_FENCING_TOKEN" -gt 0`: {`completed 1 "k 1/12 more"`, ""},
	} {
		id := r.enqueue(`{"n": 9007199254740993.10}`)
		r.drain(r.shell(script, handler.CommandConfig{Env: []string{"EXTRA=more"}}))
		fate, note := r.fate(id)
		want.fate = strings.ReplaceAll(want.fate, `\uFFFD`, "\uFFFD")
		if fate != want.fate || !strings.HasPrefix(note, want.note) || len(note) > 2300 {
			t.Errorf("%s: %s (%s), want %s (%s)", script, fate, note, want.fate, want.note)
		}
	}
}

// TestCommandTimeout ends the program and all that it started, the deaf ones
// too.
func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	pids := filepath.Join(t.TempDir(), "pids")
	id := r.enqueue("{}")
	r.drain(r.shell(`(trap '' TERM; sleep 300 & echo $! >>`+pids+`; echo $$ >>`+pids+`; sleep 300; sleep 300) & echo $! >>`+pids+`; wait; exit 65`,
		handler.CommandConfig{Timeout: 300 * time.Millisecond, KillAfter: 100 * time.Millisecond}))
	if fate, note := r.fate(id); fate != "retrying 1" || !strings.Contains(note, "timed out after 300ms") {
		t.Errorf("%s (%s)", fate, note)
	}
	r.gone(pids, 3)
}

// TestCommandToldToEnd has not done its job, though it exits with 0.
func TestCommandToldToEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		timeout    time.Duration
		fate, note string
	}{
		{300 * time.Millisecond, "retrying 1", "timed out after 300ms"},
		{time.Hour, "ready 0", ""}, // by the end of the dispatcher
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		id := r.enqueue("{}")
		command := r.shell(`trap 'exit 0' TERM; touch `+ready+`; sleep 300`, handler.CommandConfig{Timeout: c.timeout, KillAfter: time.Minute})
		stop := r.run(r.dispatcher(handler.Routes{{To: command}}, dispatcher.Config{ShutdownGrace: -1, ReturnGrace: time.Minute}))
		r.until("it runs, or has ended", func() bool {
			_, err := os.Stat(ready)
			fate, _ := r.fate(id)
			return err == nil && c.timeout == time.Hour || fate == "retrying 1"
		})
		stop()
		if fate, note := r.fate(id); fate != c.fate || !strings.Contains(note, c.note) {
			t.Errorf("%s (%s), want %s (%s)", fate, note, c.fate, c.note)
		}
	}
}

// TestCommandLeavesNobody: what a program started and left is ended with it, and
// can't hold up the job.
func TestCommandLeavesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	pids := filepath.Join(t.TempDir(), "pids")
	id := r.enqueue("{}")
	r.drain(r.shell(`sleep 300 & echo $! >`+pids, handler.CommandConfig{KillAfter: 50 * time.Millisecond}))
	if fate, note := r.fate(id); fate != "completed 1" {
		t.Errorf("%s (%s)", fate, note)
	}
	r.gone(pids, 1)
}

// gone waits until the processes that a file lists have ended.
func (r *rig) gone(file string, n int) {
	r.Helper()
	content, err := os.ReadFile(file)
	fields := strings.Fields(string(content))
	if err != nil || len(fields) != n {
		r.Fatalf("%q, %v; want %d pids", content, err, n)
	}
	for _, field := range fields {
		pid, _ := strconv.Atoi(field)
		r.until("process "+field+" has ended", func() bool { return pid > 1 && ended(pid) })
	}
}

// ended tells of a process that is gone, or waits for its parent to notice.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return strings.Contains(string(stat), ") Z ")
}

// TestCommandThatCantStart is not the job's fault.
func TestCommandThatCantStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	command, err := handler.NewCommand(handler.CommandConfig{Args: []string{program}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	id := r.enqueue("{}")
	r.drain(command)
	if fate, note := r.fate(id); fate != "scheduled 0" || !strings.Contains(note, "no such file") {
		t.Errorf("%s (%s)", fate, note)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.dead_jobs"); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestCommandInItsFolder: a program that is named by a path is looked for where it
// will run.
func TestCommandInItsFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\npwd"), 0o700); err != nil {
		t.Fatal(err)
	}
	command, err := handler.NewCommand(handler.CommandConfig{Args: []string{"./program"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	id := r.enqueue("{}")
	r.drain(command)
	if fate, note := r.fate(id); fate != `completed 1 "`+dir+`\n"` {
		t.Errorf("%s (%s)", fate, note)
	}
	_, err = handler.NewCommand(handler.CommandConfig{Args: []string{"./program"}, Dir: t.TempDir()})
	if err == nil || !strings.HasPrefix(err.Error(), "args: ") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestCommandThatTheJobKeepsFromStarting: what its headers are too long for is no
// fault of the program's place: an attempt is used.
func TestCommandThatTheJobKeepsFromStarting(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.db.Exec(t, "select lockstep.set_limits(text_bytes => 1000000)")
	id := testdb.Value[int64](t, r.db, "select id from lockstep.enqueue('k', headers => jsonb_build_object('h', repeat('x', 900000)))")
	r.drain(r.shell("true", handler.CommandConfig{}))
	if fate, note := r.fate(id); fate != "retrying 1" || !strings.Contains(note, "argument list too long") {
		t.Errorf("%s (%s)", fate, note)
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]handler.CommandConfig{
		"args: no program": {}, "args: exec": {Args: []string{"no-such-program"}},
		"timeout: ": {Args: []string{"sh"}, Timeout: -1}, "kill_after: ": {Args: []string{"sh"}, KillAfter: -1},
		"dir: stat /nowhere": {Args: []string{"sh"}, Dir: "/nowhere"}, "dir: command_test.go is no folder": {Args: []string{"sh"}, Dir: "command_test.go"},
		"env: number 2 is not NAME=value": {Args: []string{"sh"}, Env: []string{"A=", "=B"}}, "env: number 1 is": {Args: []string{"sh"}, Env: []string{"A"}},
	} {
		if _, err := handler.NewCommand(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
