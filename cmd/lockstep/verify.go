package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lockstep-pg/lockstep/store/verify"
)

type verifyCommand struct {
	databaseFlags

	IDs              string        `name:"ids" placeholder:"FILE" help:"Also look for every job id of FILE (- is standard input), one a line, as enqueue prints them: each has to be live, completed, cancelled or dead."`
	JSON             bool          `name:"json" help:"Print the report as one JSON object."`
	Limit            int           `default:"100" placeholder:"N" help:"How many findings of a class are listed; the others are counted. Default: 100."`
	Patience         time.Duration `default:"40s" placeholder:"DURATION" help:"Look a second time, so long after the first, at what a queue at work repairs by itself; 0s believes the first look. Default: 40s."`
	Overdue          time.Duration `default:"5m" placeholder:"DURATION" help:"How long work that is due, or a lease that has ended, may stand there. Default: 5m."`
	StatementTimeout time.Duration `placeholder:"DURATION" help:"Bound for every single statement. Default: as it is set for the role."`
}

// Run verifies the queue, and fails if it finds anything.
func (c *verifyCommand) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	input, name, err := c.openIDs(a)
	if err != nil {
		return err
	}
	defer input.Close()
	conn, err := c.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	progress := startProgress(a.stderr)
	config := verify.Config{
		Schema: c.schema(a.env), Limit: c.Limit, Patience: c.Patience, Overdue: c.Overdue,
		StatementTimeout: c.StatementTimeout, OnProgress: progress.set,
	}
	if c.IDs != "" {
		config.IDs = input
	}
	if c.Patience == 0 {
		config.Patience = -1
	}
	report, err := verify.Run(a.ctx, conn, config)
	progress.end()
	if err != nil {
		return notMigrated(lineOf(name, err))
	}
	return c.tell(a.stdout, report)
}

func (c *verifyCommand) check() error {
	for _, flag := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"--patience", c.Patience, 0},
		{"--overdue", c.Overdue, time.Microsecond},
		{"--statement-timeout", c.StatementTimeout, 0},
	} {
		if flag.value < flag.least {
			return usage("%s is %v; it must be at least %v", flag.name, flag.value, flag.least)
		}
	}
	if c.Limit < 1 {
		return usage("--limit is %d; it must be at least 1", c.Limit)
	}
	return nil
}

// openIDs opens the list of ids, if there is one.
func (c *verifyCommand) openIDs(a *app) (io.ReadCloser, string, error) {
	switch c.IDs {
	case "":
		return io.NopCloser(nil), "", nil
	case "-":
		return io.NopCloser(a.stdin), "standard input", nil
	}
	file, err := os.Open(c.IDs)
	if err != nil {
		return nil, "", usage("--ids: %v", err)
	}
	return file, c.IDs, nil
}

// lineOf says in which file a line is that is no id.
func lineOf(name string, err error) error {
	var line *verify.LineError
	if errors.As(err, &line) {
		return usage("%s:%d: %v", name, line.Line, line.Err)
	}
	return err
}

// tell prints the report, and is an error if there are findings.
func (c *verifyCommand) tell(w io.Writer, report verify.Report) error {
	write := printReport
	if c.JSON {
		write = func(w io.Writer, report verify.Report) error { return json.NewEncoder(w).Encode(report) }
	}
	if err := write(w, report); err != nil {
		return err
	}
	if n := report.Found(); n > 0 {
		return fmt.Errorf("schema %q: %s, listed above", report.Schema, counted(int(n), "finding"))
	}
	return nil
}
