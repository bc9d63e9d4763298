package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrPending is a schema with migrations still to apply.
	ErrPending = errors.New("the schema is not up to date")

	// ErrTrigger is a trigger that is missing or switched off: jobs inserted
	// meanwhile are found late or not placed at all.
	ErrTrigger = errors.New("a trigger of the schema does not fire")

	// ErrRowSecurity is row level security forced on the jobs: it hides rows
	// from the schema's own functions.
	ErrRowSecurity = errors.New("row level security is forced on the table job")
)

// State is what Status found.
type State struct {
	Schema   string
	Server   string      // the server's version, as it tells it
	Version  int         // the last applied migration, 0 without a schema
	Applied  []Applied   // in order
	Pending  []Migration // in order; replaceable ones that changed among them
	Triggers []Trigger   // those the schema needs; none while it has no version

	// Problems are everything that keeps the schema from working as it should,
	// as wrapped errors of this package. None: it is current and sound.
	Problems []error
}

// Status looks at a schema without changing or locking anything. The
// connection must not be in a transaction. Its error means that it couldn't
// look; what it found amiss is in State.Problems.
func Status(ctx context.Context, conn *pgx.Conn, config Config) (State, error) {
	run, err := newRun(conn, config)
	if err != nil {
		return State{}, err
	}
	state := State{Schema: run.config.Schema}
	state.Server, err = run.serverVersion(ctx)
	if err != nil && !errors.Is(err, ErrServerVersion) {
		return State{}, err
	}
	state.report(err)
	return state, run.look(ctx, &state)
}

// look reads what the schema tells about itself.
func (r *run) look(ctx context.Context, state *State) (err error) {
	if state.Applied, err = r.installed(ctx); err != nil {
		return err
	}
	if n := len(state.Applied); n > 0 {
		state.Version = state.Applied[n-1].Version
	}
	state.report(r.check(state.Applied))
	if len(state.Applied) < len(r.set) {
		state.Pending = r.difference(state.Applied)
		state.report(fmt.Errorf("%w: %q is at version %d of %d", ErrPending, r.config.Schema, state.Version, len(r.set)))
	}
	if state.Version == 0 {
		return nil
	}
	if state.Triggers, err = r.triggers(ctx); err != nil {
		return err
	}
	for _, trigger := range state.Triggers {
		state.report(trigger.problem())
	}
	forced, err := r.rowSecurityForced(ctx)
	if forced {
		state.report(fmt.Errorf("%w: alter table %s.job no force row level security", ErrRowSecurity, r.quoted()))
	}
	return err
}

func (s *State) report(problem error) {
	if problem != nil {
		s.Problems = append(s.Problems, problem)
	}
}
