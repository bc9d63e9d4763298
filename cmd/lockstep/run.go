package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// app is what every command gets.
type app struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	log    *slog.Logger
}

// commandLine is the grammar of the command line.
type commandLine struct {
	LogLevel slog.Level `name:"log-level" default:"info" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error. Default: info."`

	Migrate migrateCommand `cmd:"" help:"Create, update, show or remove Lockstep's schema."`
	Enqueue enqueueCommand `cmd:"" help:"Enqueue one job by flags, or many from a file."`
	Status  statusCommand  `cmd:"" help:"Show where jobs stand, and why they wait."`

	Cancel     cancelCommand     `cmd:"" help:"Cancel jobs: those that nobody runs at once; of those that run, the handler's context ends."`
	Retry      retryCommand      `cmd:"" help:"Let jobs that are retrying, snoozed or scheduled run now."`
	Reschedule rescheduleCommand `cmd:"" help:"Give a job that nobody runs another due time."`
	Priority   priorityCommand   `cmd:"" help:"Give jobs another priority."`

	Pause  pauseCommand  `cmd:"" help:"Stop a queue, a kind, a tenant or an ordering key: what runs runs on, nothing else is started."`
	Resume resumeCommand `cmd:"" help:"End a pause."`
	Pauses pausesCommand `cmd:"" help:"List the pauses that stand."`

	Dead  deadCommand  `cmd:"" help:"List, show, replay, discard or purge dead letters."`
	Lanes lanesCommand `cmd:"" help:"List the lanes that a dead job blocks, and let them go on."`

	Grant  grantCommand  `cmd:"" help:"Give a database role its part: producer, worker, operator, reader or tenant."`
	Revoke revokeCommand `cmd:"" help:"Take all that was granted from a database role."`

	Verify  verifyCommand  `cmd:"" help:"Prove on the database's own data that jobs ran in order and one at a time, and that none is lost or stuck; ends in 1 if anything is found."`
	Adopt   adoptCommand   `cmd:"" help:"Let a restored copy of a database run the jobs in it; until then its workers are refused."`
	Run     runCommand     `cmd:"" help:"Push jobs to an app beside, over HTTP, or run a program for each; serve health and metrics."`
	Drain   drainCommand   `cmd:"" help:"Do the same until nothing is ready or the time is over: for cron and serverless."`
	Config  configCommand  `cmd:"" help:"Check a file of settings, or show one."`
	Demo    demoCommand    `cmd:"" help:"Run a busy queue for half a minute and prove that it kept its promises."`
	Version versionCommand `cmd:"" help:"Show the version."`
}

const description = `A job queue in your own PostgreSQL: one at a time and in order, for each key.

Exit codes: 0 done, 1 failure or a finding of verify, 2 wrong usage, 3 a job was refused, 4 database not reachable, 5 handlers were cut off at the end, 130 ended by a signal.`

// run is the whole program but for the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	err := a.run(args)
	code := exitCode(ctx, err)
	if code == exitInterrupted {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if err != nil {
		complain(stderr, err)
	}
	return code
}

func (a *app) run(args []string) error {
	if err := checkText(args); err != nil {
		return err
	}
	var line commandLine
	helped := false
	parser := kong.Must(&line, kong.Name("lockstep"), kong.Description(description),
		kong.WithHyphenPrefixedParameters(true), kong.Resolvers(variables(a.env)),
		kong.Writers(a.stdout, a.stderr), kong.Exit(func(int) { helped = true }))
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil:
		return usage("%v; see lockstep %s--help", err, commandOf(args))
	}
	a.log = newLogger(a.stderr, line.LogLevel, a.env)
	return command.Run(a)
}

// places are the flags that say where to work. An empty one is no answer: what it
// stands for got lost, and the default may be another database.
var places = []string{urlFlag, urlFlag + "-file", "--schema", "--file", "--ids", "--config", "--listen-database-url"}

// checkText refuses what kong would silently mend, and places that are empty.
func checkText(args []string) error {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined {
			name, value = args[max(i-1, 0)], arg
		}
		switch {
		case !utf8.ValidString(arg):
			return usage("%q is not followed by valid UTF-8", name)
		case value == "" && slices.Contains(places, name):
			return usage("%s is empty", name)
		}
	}
	return nil
}

// commandOf is the command that args begin with, and a blank, as far as it is one.
func commandOf(args []string) string {
	commands := []string{
		"migrate", "enqueue", "status", "cancel", "retry", "reschedule", "priority", "pause", "resume", "pauses",
		"dead", "lanes", "grant", "revoke", "verify", "adopt", "run", "drain", "config", "demo", "version",
	}
	if slices.Contains(commands, args[0]) {
		return args[0] + " "
	}
	return ""
}
