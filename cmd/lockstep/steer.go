package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// steerFlags are of the commands for jobs by their ids.
type steerFlags struct {
	databaseFlags

	JSON bool `name:"json" help:"Print a JSON object for each job."`
}

// each does the same to jobs, one after the other, and prints a line for each.
// One that fails stops none of the others.
func (f steerFlags) each(a *app, ids []int64, act func(*store.Store, int64) (string, error)) error {
	conn, err := f.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	db := store.New(conn).In(f.schema(a.env))
	failed := 0
	for _, id := range ids {
		state, err := act(db, id)
		err = notMigrated(flagError(err))
		switch {
		case err != nil && (len(ids) == 1 || a.ctx.Err() != nil || conn.IsClosed()):
			return err
		case err != nil:
			failed++
			complain(a.stderr, err)
		default:
			if err := f.print(a, id, state); err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d failed, as told above", counted(failed, "job"), len(ids))
	}
	return nil
}

// print tells a state and, behind a colon, why it lasts.
func (f steerFlags) print(a *app, id int64, state string) error {
	if f.JSON {
		state, why, _ := strings.Cut(state, ": ")
		return json.NewEncoder(a.stdout).Encode(struct {
			ID         int64  `json:"id"`
			State      string `json:"state"`
			WaitingFor string `json:"waiting_for,omitempty"`
		}{id, state, why})
	}
	_, err := fmt.Fprintf(a.stdout, "%d\t%s\n", id, state)
	return err
}

type cancelCommand struct {
	steerFlags

	ID []int64 `arg:"" help:"Jobs to cancel."`
}

// Run cancels and prints what it came to: cancelled, requested or ended.
func (c *cancelCommand) Run(a *app) error {
	return c.each(a, c.ID, func(db *store.Store, id int64) (string, error) {
		state, err := db.Cancel(a.ctx, id)
		return string(state), err
	})
}

type retryCommand struct {
	steerFlags

	ID []int64 `arg:"" help:"Jobs that are retrying, snoozed or scheduled."`
}

// Run prints ready, or due for a job that joins its lane in a moment.
func (c *retryCommand) Run(a *app) error {
	return c.each(a, c.ID, func(db *store.Store, id int64) (string, error) {
		state, err := db.RetryNow(a.ctx, id)
		return string(state), err
	})
}

type rescheduleCommand struct {
	steerFlags

	ID    int64          `arg:"" help:"A job that nobody runs."`
	RunAt *string        `xor:"due" placeholder:"TIME" help:"When it falls due, as in 2030-01-31T12:00:00Z (RFC 3339)."`
	Delay *time.Duration `xor:"due" placeholder:"DURATION" help:"Due so long from now, as in 90s or 1h30m."`
}

// Run prints the state that the job is in then.
func (c *rescheduleCommand) Run(a *app) error {
	var at time.Time
	switch {
	case c.RunAt == nil && c.Delay == nil:
		return usage("reschedule needs --run-at or --delay")
	case c.RunAt != nil:
		var err error
		if at, err = time.Parse(time.RFC3339, *c.RunAt); err != nil {
			return usage("--run-at: %q is not %s", *c.RunAt, store.TimeForm)
		}
	}
	return c.each(a, []int64{c.ID}, func(db *store.Store, id int64) (string, error) {
		var state store.State
		var err error
		if c.Delay != nil {
			state, err = db.RescheduleIn(a.ctx, id, *c.Delay)
		} else {
			state, err = db.Reschedule(a.ctx, id, at)
		}
		return string(state), err
	})
}

type priorityCommand struct {
	steerFlags

	ID []int64 `arg:"" help:"Jobs that have not ended."`
	To int32   `required:"" placeholder:"N" help:"-9 to 9, higher first."`
}

// Run prints each job as changed.
func (c *priorityCommand) Run(a *app) error {
	return c.each(a, c.ID, func(db *store.Store, id int64) (string, error) {
		err := db.SetPriority(a.ctx, id, int(c.To))
		if errors.Is(err, store.ErrInvalid) {
			err = &refusedError{"--to", err}
		}
		return "changed", err
	})
}

type statusCommand struct {
	steerFlags

	ID []int64 `arg:"" help:"Jobs to look at."`
}

// Run prints each job's state and, if it waits, why.
func (c *statusCommand) Run(a *app) error {
	return c.each(a, c.ID, func(db *store.Store, id int64) (string, error) {
		job, err := db.JobOutline(a.ctx, id) // who may not read payloads may read this
		state := string(job.State)
		if job.WaitingFor != "" {
			state += ": " + job.WaitingFor
		}
		return state, err
	})
}
