package demo

import (
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says where the demo runs and for how long.
type Config struct {
	// Database is the database to use; the demo makes a schema of its own in it
	// and drops that at the end. Nil: a private server in a temporary folder.
	Database *pgxpool.Config

	// Length is how long jobs are produced, at least a second; a burst and its
	// drain come on top. Zero: 15 s.
	Length time.Duration

	// Burst is how many jobs are enqueued in bulk after that, by three producers,
	// and drained. Zero: 9000.
	Burst int

	// Out gets the progress and the report. Nil: nobody does.
	Out io.Writer

	// Live redraws the progress in place, for a terminal. False: a line from
	// time to time.
	Live bool

	// Logger gets what the dispatchers log. Nil: nobody does.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Length == 0 {
		c.Length = 15 * time.Second
	}
	if c.Burst == 0 {
		c.Burst = 9000
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
