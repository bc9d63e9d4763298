package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstep-pg/lockstep/cmd/lockstep/demo"
)

type demoCommand struct {
	URL    string        `name:"database-url" xor:"database" placeholder:"URL" help:"Database to run in, in a schema of the demo's own that is dropped at the end. Default: $$LOCKSTEP_DATABASE_URL, else a private PostgreSQL that is removed at the end; the PG* variables alone choose none."`
	File   string        `name:"database-url-file" xor:"database" placeholder:"FILE" help:"File that holds the database URL."`
	Length time.Duration `default:"15s" placeholder:"DURATION" help:"How long jobs are produced, from 1s on; a burst of 9,000 jobs comes on top. Default: 15s."`
}

// Run runs the demo. What its dispatchers log is shown at level debug only: it
// plans for failures.
func (c *demoCommand) Run(a *app) error {
	if c.Length < time.Second {
		return usage("--length is %v; it must be at least 1s", c.Length)
	}
	config := demo.Config{Length: c.Length, Out: a.stdout, Live: isTerminal(a.stdout)}
	server := serverFlags{URL: c.URL, File: c.File}
	text, _, err := server.source(a.env)
	if err != nil {
		return err
	}
	if text != "" {
		if config.Database, err = server.config(a.env); err != nil {
			return err
		}
	}
	if a.log.Enabled(context.Background(), slog.LevelDebug) {
		config.Logger = a.log
	}
	// A reader that goes away, like head, is no reason to leave things behind.
	ctx, stop := signal.NotifyContext(a.ctx, syscall.SIGPIPE)
	defer stop()
	err = demo.Run(ctx, config)
	if err != nil && ctx.Err() != nil && a.ctx.Err() == nil {
		return fmt.Errorf("nobody reads the output any more: %w", err)
	}
	return err
}
