package workerproc

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// patience is how long Await and Wait wait before they fail the test.
const patience = 30 * time.Second

// Process is a process that plays a role.
type Process struct {
	role   string
	cmd    *exec.Cmd
	stdout lines
	stderr tail
	done   chan struct{} // closed once the process was waited for
}

// Start starts a process that plays a registered role. When the test ends, so
// does the process, by SIGKILL; if the test failed, the end of what the process
// wrote to stderr is logged. A data race in the process fails the test.
func Start(t testing.TB, role string, args ...string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return StartCommand(t, role, cmd)
}

// StartCommand starts any program under a name of the test's, and ends it as
// Start does. The command's output is the process's; of its SysProcAttr only the
// Credential counts.
func StartCommand(t testing.TB, role string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{role: role, cmd: cmd, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = processAttributes(cmd.SysProcAttr)
	if err := p.start(); err != nil {
		t.Fatalf("starting %s: %v", role, err)
	}
	t.Cleanup(func() { p.cleanUp(t) })
	return p
}

// start runs the process from a thread that stays until it has ended: on Linux
// the process is ended when the thread that forked it is.
func (p *Process) start() error {
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer p.stdout.close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ExitCode tells
		}
	}()
	return <-started
}

func (p *Process) cleanUp(t testing.TB) {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.done
	written := p.stderr.bytes()
	if bytes.Contains(written, []byte("WARNING: DATA RACE")) {
		t.Errorf("%s (process %d) has a data race", p.role, p.Pid())
	}
	if t.Failed() && len(written) > 0 {
		t.Logf("%s (process %d) wrote:\n%s", p.role, p.Pid(), written)
	}
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stderr is the end of what the process has written to stderr so far.
func (p *Process) Stderr() string { return string(p.stderr.bytes()) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends the process a signal. It must not have ended.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("sending %v to %s: %v", signal, p.role, err)
	}
}

// Kill ends the process with SIGKILL, also one that was stopped, and returns
// when it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
}

// Wait returns the exit code once the process has ended, -1 after a signal. It
// fails the test if that takes more than 30 s.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("%s (process %d) did not end within %v", p.role, p.Pid(), patience)
		return 0
	}
}

// Printed returns a channel that gets true once the process has printed a line
// to stdout since it started, false if it ends without.
func (p *Process) Printed(line string) <-chan bool {
	printed, _ := p.stdout.await(line)
	return printed
}

// Await returns once the process has printed a line to stdout since it started.
// It fails the test if the process ends before, or prints none within 30 s.
func (p *Process) Await(t testing.TB, line string) {
	t.Helper()
	printed, forget := p.stdout.await(line)
	defer forget()
	select {
	case ok := <-printed:
		if !ok {
			t.Fatalf("%s (process %d) ended without printing %q", p.role, p.Pid(), line)
		}
	case <-time.After(patience):
		t.Fatalf("%s (process %d) did not print %q within %v", p.role, p.Pid(), line, patience)
	}
}
