package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/store"
)

type enqueueCommand struct {
	databaseFlags

	Kind        string            `group:"One job" placeholder:"KIND" help:"Which handler runs the job."`
	Payload     string            `group:"One job" placeholder:"JSON" help:"Payload, as JSON; every digit is kept. Default: {}."`
	Queue       string            `group:"One job" placeholder:"NAME" help:"Queue. Default: default."`
	Tenant      string            `group:"One job" placeholder:"NAME" help:"Tenant. Default: none."`
	OrderingKey string            `group:"One job" placeholder:"KEY" help:"Jobs of one key run one at a time, in order. Default: none."`
	Priority    int32             `group:"One job" placeholder:"N" help:"-9 to 9, higher first. Default: 0."`
	RunAt       string            `group:"One job" placeholder:"TIME" help:"When it falls due, as in 2030-01-31T12:00:00Z (RFC 3339). Default: now."`
	Delay       time.Duration     `group:"One job" placeholder:"DURATION" help:"Due so long from now, as in 90s or 1h30m. Default: now."`
	MaxAttempts int32             `group:"One job" placeholder:"N" help:"How often the job may start, 1 to 32767. Default: 12."`
	DedupeKey   string            `group:"One job" placeholder:"KEY" help:"At most one unfinished job of this key. Default: none."`
	Header      map[string]string `group:"One job" mapsep:"none" placeholder:"NAME=VALUE" help:"Header beside the payload; may be repeated."`

	JobFile string `name:"file" group:"Many jobs" placeholder:"FILE" help:"Enqueue a job for each line of FILE (- is standard input), a JSON object with the fields kind, payload, queue, tenant, ordering_key, priority, run_at, delay, max_attempts, dedupe_key, headers. All lines are enqueued in one transaction, or none."`
	InParts bool   `group:"Many jobs" help:"Commit every 10,000 lines (or 16 MiB) for itself: an error then leaves the parts before it, and says where to go on."`
}

// Run enqueues and prints the ids, one a line, in the order of the jobs.
func (c *enqueueCommand) Run(a *app) error {
	if c.JobFile != "" {
		if flag := c.jobFlag(); flag != "" {
			return usage("%s describes one job and can't be combined with --file", flag)
		}
		return c.many(a)
	}
	if c.InParts {
		return usage("--in-parts needs --file")
	}
	return c.one(a)
}

// jobFlag names a flag that describes one job and was given, or "".
func (c *enqueueCommand) jobFlag() string {
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--kind", c.Kind != ""},
		{"--payload", c.Payload != ""},
		{"--queue", c.Queue != ""},
		{"--tenant", c.Tenant != ""},
		{"--ordering-key", c.OrderingKey != ""},
		{"--priority", c.Priority != 0},
		{"--run-at", c.RunAt != ""},
		{"--delay", c.Delay != 0},
		{"--max-attempts", c.MaxAttempts != 0},
		{"--dedupe-key", c.DedupeKey != ""},
		{"--header", len(c.Header) > 0},
	} {
		if f.given {
			return f.flag
		}
	}
	return ""
}

func (c *enqueueCommand) one(a *app) error {
	job, err := c.job()
	if err != nil {
		return err
	}
	conn, err := c.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	enqueued, err := store.New(conn).In(c.schema(a.env)).Enqueue(a.ctx, job)
	if err != nil {
		return notMigrated(flagError(err))
	}
	return printIDs(a.stdout, []store.Enqueued{enqueued})
}

func (c *enqueueCommand) job() (store.NewJob, error) {
	job := store.NewJob{
		Kind: c.Kind, Queue: c.Queue, Tenant: c.Tenant, OrderingKey: c.OrderingKey, Priority: int(c.Priority),
		Delay: c.Delay, MaxAttempts: int(c.MaxAttempts), DedupeKey: c.DedupeKey, Headers: c.Header,
	}
	if c.Payload != "" {
		job.Payload = json.RawMessage(c.Payload)
	}
	if c.RunAt != "" {
		at, err := time.Parse(time.RFC3339, c.RunAt)
		if err != nil {
			return job, &refusedError{"--run-at", fmt.Errorf("run_at is %q; it must be %s", c.RunAt, timeForm)}
		}
		job.RunAt = at
	}
	return job, nil
}

// flagError names the flag whose value was refused.
func flagError(err error) error {
	var field *store.FieldError
	if !errors.As(err, &field) || field.Field == "" {
		return err
	}
	flag := "--" + strings.ReplaceAll(field.Field, "_", "-")
	if field.Field == "headers" {
		flag = "--header"
	}
	return &refusedError{flag, err}
}

// notMigrated adds what to do to an error that comes from a missing schema.
func notMigrated(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && slices.Contains([]string{"3F000", "42883", "42P01"}, pg.Code) {
		return fmt.Errorf("%w; is the schema there? See lockstep migrate status", err)
	}
	return err
}
