package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// errEndedEarly is a server process that ended before it was ready.
var errEndedEarly = errors.New("the server ended before it was ready")

// process is a running postmaster.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process was waited for
}

// initialize makes the data folder, with initdb.
func (s *Server) initialize(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.config.BinDir, "initdb"),
		"--pgdata="+s.config.Dir, "--username="+superuser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	s.prepare(cmd)
	runtime.LockOSThread() // see startProcess
	defer runtime.UnlockOSThread()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// prepare gives a command its user, folder and environment. PG* variables are
// meant for clients, or for another server.
func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir = s.config.Dir
	cmd.SysProcAttr = processAttributes(s.owner.credential())
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
}

// launch starts the postmaster and waits until it is ready. After an error
// nothing runs.
func (s *Server) launch(ctx context.Context) error {
	if err := s.config.writeSettings(s.port); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.config.Dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	logged, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.config.BinDir, "postgres"), "-D", s.config.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	s.prepare(cmd)
	if s.process, err = startProcess(cmd); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.process.kill()
		s.process = nil
		return fmt.Errorf("starting PostgreSQL in %s: %w%s", s.config.Dir, err, logSince(log.Name(), logged))
	}
	return nil
}

// startProcess runs cmd on a thread that stays until the process has ended: on
// Linux the process is ended when the thread that forked it is, so that thread
// must not go before the whole program does.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// awaitReady watches the server's own status file, which unlike a connection
// cannot be another server's answer.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.done:
			return errEndedEarly
		case <-tick.C:
			if s.ready() {
				return nil
			}
		}
	}
}

// ready reads postmaster.pid: its first line is the process, its eighth the
// status.
func (s *Server) ready() bool {
	content, err := os.ReadFile(filepath.Join(s.config.Dir, "postmaster.pid"))
	lines := strings.Split(string(content), "\n")
	return err == nil && len(lines) >= 8 &&
		lines[0] == strconv.Itoa(s.process.cmd.Process.Pid) &&
		strings.TrimSpace(lines[7]) == "ready"
}

// logSince is what the server logged from an offset on, for an error message.
func logSince(path string, offset int64) string {
	content, err := os.ReadFile(path)
	if err != nil || int64(len(content)) <= offset {
		return ""
	}
	const most = 2000
	content = content[offset:]
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return "; its log:\n" + string(bytes.TrimSpace(content))
}
