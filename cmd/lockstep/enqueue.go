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

	Kind        *string           `group:"One job" placeholder:"KIND" help:"Which handler runs the job."`
	Payload     *string           `group:"One job" placeholder:"JSON" help:"Payload, as JSON; every digit is kept. Default: {}."`
	Queue       *string           `group:"One job" placeholder:"NAME" help:"Queue. Default: default."`
	Tenant      *string           `group:"One job" placeholder:"NAME" help:"Tenant. Default: none."`
	OrderingKey *string           `group:"One job" placeholder:"KEY" help:"Jobs of one key run one at a time, in order. Default: none."`
	Priority    *int32            `group:"One job" placeholder:"N" help:"-9 to 9, higher first. Default: 0."`
	RunAt       *string           `group:"One job" placeholder:"TIME" help:"When it falls due, as in 2030-01-31T12:00:00Z (RFC 3339). Default: now."`
	Delay       *time.Duration    `group:"One job" placeholder:"DURATION" help:"Due so long from now, as in 90s or 1h30m. Default: now."`
	MaxAttempts *int32            `group:"One job" placeholder:"N" help:"How often the job may start, 1 to 32767. Default: 12."`
	DedupeKey   *string           `group:"One job" placeholder:"KEY" help:"At most one unfinished job of this key. Default: none."`
	Dedupe      *string           `group:"One job" placeholder:"POLICY" help:"If an unfinished job has the dedupe key: reject (it stays as it is), replace (it gets this payload, unless it was claimed) or one_more (the same; beside a claimed one, one more). Default: reject."`
	Idempotency *string           `name:"idempotency-key" group:"One job" placeholder:"KEY" help:"The same request with the same key makes its job once. Default: none."`
	Header      map[string]string `group:"One job" mapsep:"none" placeholder:"NAME=VALUE" help:"Header beside the payload; may be repeated."`

	JobFile string `name:"file" group:"Many jobs" placeholder:"FILE" help:"Enqueue a job for each line of FILE (- is standard input), a JSON object with the fields kind, payload, queue, tenant, ordering_key, priority, run_at, delay, max_attempts, dedupe_key, dedupe, idempotency_key, headers. All lines are enqueued in one transaction, or none."`
	InParts bool   `group:"Many jobs" help:"Commit every 10,000 lines (or 16 MiB) for itself: an error then leaves the parts before it, and says where to go on."`
}

// Run enqueues and prints the ids, one a line, in the order of the jobs.
func (c *enqueueCommand) Run(a *app) error {
	if c.JobFile != "" {
		for _, flag := range c.jobFlags() {
			if flag.given {
				return usage("%s describes one job and can't be combined with --file", flagOf(flag.field))
			}
		}
		return c.many(a)
	}
	switch {
	case c.InParts:
		return usage("--in-parts needs --file")
	case c.Kind == nil:
		return usage("enqueue needs --kind, or --file; see lockstep enqueue --help")
	}
	return c.one(a)
}

// jobFlag is a flag that describes one job.
type jobFlag struct {
	field string // as SQL names it
	given bool
	empty bool // given as ""
}

func textFlag(field string, value *string) jobFlag {
	return jobFlag{field, value != nil, value != nil && *value == ""}
}

func (c *enqueueCommand) jobFlags() []jobFlag {
	return []jobFlag{
		textFlag("kind", c.Kind),
		textFlag("payload", c.Payload),
		textFlag("queue", c.Queue),
		textFlag("tenant", c.Tenant),
		textFlag("ordering_key", c.OrderingKey),
		textFlag("dedupe_key", c.DedupeKey),
		textFlag("dedupe", c.Dedupe),
		textFlag("idempotency_key", c.Idempotency),
		{field: "priority", given: c.Priority != nil},
		{field: "run_at", given: c.RunAt != nil},
		{field: "delay", given: c.Delay != nil},
		{field: "max_attempts", given: c.MaxAttempts != nil},
		{field: "headers", given: c.Header != nil},
	}
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

// job is the job that the flags describe. An empty value is refused, as in a file.
func (c *enqueueCommand) job() (store.NewJob, error) {
	job := store.NewJob{
		Kind: orZero(c.Kind), Queue: orZero(c.Queue), Tenant: orZero(c.Tenant), OrderingKey: orZero(c.OrderingKey),
		Priority: int(orZero(c.Priority)), Delay: orZero(c.Delay), MaxAttempts: int(orZero(c.MaxAttempts)),
		DedupeKey: orZero(c.DedupeKey), Dedupe: store.Dedupe(orZero(c.Dedupe)), IdempotencyKey: orZero(c.Idempotency),
		Headers: c.Header,
	}
	if c.RunAt != nil {
		at, err := time.Parse(time.RFC3339, *c.RunAt)
		if err != nil {
			return job, usage("--run-at: %q is not %s", *c.RunAt, store.TimeForm)
		}
		job.RunAt = at
	}
	for _, flag := range c.jobFlags() {
		if flag.empty {
			return job, refusedFlag(flag.field, store.EmptyText(flag.field))
		}
	}
	if c.RunAt != nil && c.Delay != nil {
		return job, refusedFlag("run_at", store.TwoDueTimes)
	}
	if c.MaxAttempts != nil && *c.MaxAttempts == 0 {
		return job, refusedFlag("max_attempts", store.NoAttempt)
	}
	if c.Payload != nil {
		job.Payload = json.RawMessage(*c.Payload)
	}
	return job, nil
}

func orZero[T any](value *T) (zero T) {
	if value == nil {
		return zero
	}
	return *value
}

// flagError names the flag whose value was refused.
func flagError(err error) error {
	var field *store.FieldError
	var named *refusedError
	if !errors.As(err, &field) || field.Field == "" || errors.As(err, &named) {
		return err
	}
	return &refusedError{flagOf(field.Field), err}
}

func refusedFlag(field, problem string) error {
	return &refusedError{flagOf(field), errors.New(field + " " + problem)}
}

// flagOf is the flag that sets a field of SQL.
func flagOf(field string) string {
	if field == "headers" {
		return "--header"
	}
	return "--" + strings.ReplaceAll(field, "_", "-")
}

// notMigrated adds what to do to an error that comes from a missing schema.
func notMigrated(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && slices.Contains([]string{"3F000", "42883", "42P01"}, pg.Code) {
		return fmt.Errorf("%w; is the schema there? See lockstep migrate status", err)
	}
	return err
}
