package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// Exit codes of a command, as sysexits.h names them. 0 completes the job; any
// other, and a signal, is a failed attempt.
const (
	exitRetry = 75 // EX_TEMPFAIL: failed, again later; like all that are not listed
	exitDead  = 65 // EX_DATAERR: dead at once
)

// DefaultKillAfter is how long a command may take to end, unless it is given.
const DefaultKillAfter = 5 * time.Second

// CommandConfig says what to run for a job.
type CommandConfig struct {
	// Args are the program, looked up in PATH unless it is a path, which begins
	// in Dir, and its arguments. No shell reads them, and nothing of the job is
	// put into them.
	Args []string

	// Dir is where it runs. "": where this process does.
	Dir string

	// Env are variables beside this process's own, as NAME=value.
	Env []string

	// Timeout is how long it may run: at most 24 h. Then its process group is
	// told to end (SIGTERM), and the attempt has failed. Zero: 1 min.
	Timeout time.Duration

	// KillAfter is how long it may take to end once it was told; then it is
	// killed (SIGKILL). A dispatcher's ReturnGrace should be longer: a program
	// that it does not wait for at its end is left running. Zero:
	// DefaultKillAfter.
	KillAfter time.Duration
}

// Command runs a program per job: the payload on its standard input, the job's
// facts in variables LOCKSTEP_…, its standard output for a result. It runs in a
// process group of its own, of which nothing is left when it has ended.
type Command struct{ config CommandConfig }

// NewCommand returns a Command. The error names the field at fault.
func NewCommand(c CommandConfig) (*Command, error) {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.KillAfter == 0 {
		c.KillAfter = DefaultKillAfter
	}
	switch {
	case len(c.Args) == 0 || c.Args[0] == "":
		return nil, errors.New("args: no program")
	case c.Timeout < time.Millisecond || c.Timeout > 24*time.Hour:
		return nil, fmt.Errorf("timeout: it is %v, want 1ms to 24h", c.Timeout)
	case c.KillAfter < 0:
		return nil, fmt.Errorf("kill_after: it is negative: %v", c.KillAfter)
	}
	if _, err := exec.LookPath(c.program()); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	if info, err := os.Stat(cmp.Or(c.Dir, ".")); err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("dir: %s is no folder", c.Dir)
	}
	for i, entry := range c.Env {
		if strings.Index(entry, "=") < 1 {
			return nil, fmt.Errorf("env: number %d is not NAME=value", i+1)
		}
	}
	return &Command{c}, nil
}

// program is what is run, as this process finds it: a path that is not absolute
// begins in Dir.
func (c CommandConfig) program() string {
	name := c.Args[0]
	if c.Dir == "" || filepath.IsAbs(name) || filepath.Base(name) == name {
		return name
	}
	return c.Dir + string(filepath.Separator) + name
}

// Run runs the program for a job and returns the outcome.
func (c *Command) Run(ctx context.Context, job dispatcher.Job[json.RawMessage]) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, dispatcher.ErrTimeout)
	defer cancel()
	stdin, err := payloadFile(job.Payload)
	if err != nil {
		return dispatcher.SnoozeBecause(10*time.Second, fmt.Errorf("the payload's file: %w", err))
	}
	defer stdin.Close()
	var stdout, stderr capped
	stdout.limit, stderr.limit = maxResult+1, maxFailure
	cmd := exec.CommandContext(ctx, c.config.Args[0], c.config.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.config.Dir, stdin, &stdout, &stderr
	cmd.Env = append(append(os.Environ(), c.config.Env...), variables(job, time.Now().Add(c.config.Timeout))...)
	cmd.WaitDelay = c.config.KillAfter
	inGroup(cmd)
	err = cmd.Run()
	endGroup(cmd)
	return c.judge(ctx, job, err, &stdout, &stderr)
}

// judge is the outcome of a program that has ended. One that was told to end has
// not done its job, even if it exits with 0: err is the context's then.
func (c *Command) judge(ctx context.Context, job dispatcher.Job[json.RawMessage], err error, stdout, stderr *capped) error {
	var exit *exec.ExitError
	cause := context.Cause(ctx)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // it ended well, and left somebody with its output
		if result := resultOf(stdout.kept, nil); result != nil {
			return job.SetResult(result)
		}
		return nil
	case cause == nil && !errors.As(err, &exit) && !errors.Is(err, syscall.E2BIG): // it did not start: not the job's fault
		return dispatcher.SnoozeBecause(10*time.Second, fmt.Errorf("command %s: %w", c.config.Args[0], err))
	}
	failure := &CommandError{Program: c.config.Args[0], State: err.Error(), Stderr: excerpt(stderr.kept)}
	if errors.Is(cause, dispatcher.ErrTimeout) {
		failure.State = fmt.Sprintf("timed out after %v (%s)", c.config.Timeout, failure.State)
	} else if errors.As(err, &exit) && exit.ExitCode() == exitDead {
		return backoff.Permanent(failure)
	}
	return failure
}

// CommandError is an attempt whose program failed.
type CommandError struct {
	Program string
	State   string // "exit status 1", "signal: killed"
	Stderr  string // the first 2 KiB of its standard error
}

// Error is how the program ended, and what it said.
func (e *CommandError) Error() string {
	if e.Stderr == "" {
		return e.brief()
	}
	return e.brief() + ": " + e.Stderr
}

func (e *CommandError) brief() string { return fmt.Sprintf("command %s: %s", e.Program, e.State) }

// LogValue leaves what the program said out of logs: it may repeat the payload.
func (e *CommandError) LogValue() slog.Value { return slog.StringValue(e.brief()) }

// payloadFile is a nameless file that holds the payload: a program need not read
// its input, and nobody has to wait for it to.
func payloadFile(payload []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "lockstep-payload-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	if _, err := f.WriteAt(payload, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// variables are what is known of a job, for a program.
func variables(job dispatcher.Job[json.RawMessage], deadline time.Time) []string {
	return []string{
		"LOCKSTEP_ID=" + strconv.FormatInt(job.ID, 10),
		"LOCKSTEP_KIND=" + job.Kind,
		"LOCKSTEP_QUEUE=" + job.Queue,
		"LOCKSTEP_TENANT=" + job.Tenant,
		"LOCKSTEP_ORDERING_KEY=" + job.OrderingKey,
		"LOCKSTEP_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"LOCKSTEP_MAX_ATTEMPTS=" + strconv.Itoa(job.MaxAttempts),
		"LOCKSTEP_FENCING_TOKEN=" + strconv.FormatInt(job.Fence, 10),
		"LOCKSTEP_DEADLINE=" + deadline.UTC().Format(time.RFC3339Nano),
		"LOCKSTEP_ENQUEUED_AT=" + job.CreatedAt.UTC().Format(time.RFC3339Nano),
		"LOCKSTEP_HEADERS=" + string(job.Headers),
	}
}

// capped keeps the beginning of what is written, and takes the rest.
type capped struct {
	limit int
	kept  []byte
}

// Write never fails: a program is not to be ended by what it says.
func (c *capped) Write(p []byte) (int, error) {
	c.kept = append(c.kept, p[:min(len(p), c.limit-len(c.kept))]...)
	return len(p), nil
}
