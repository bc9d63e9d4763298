package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Confirmation is the caller's word that a schema may be destroyed.
type Confirmation bool

// DropEverything confirms that the schema goes with every job in it.
const DropEverything Confirmation = true

var (
	// ErrNotConfirmed is returned by Down without DropEverything.
	ErrNotConfirmed = errors.New("dropping the schema destroys every job in it and was not confirmed")

	// ErrNotOurs is a schema that Down leaves alone, since Lockstep did not
	// make it.
	ErrNotOurs = errors.New("not a schema of Lockstep's alone")
)

// Down drops the schema with everything in it: waiting and finished jobs,
// settings, and whatever else depends on it. A schema that does not exist is
// fine. It waits for locks as Up does; the connection must not be in a
// transaction.
func Down(ctx context.Context, conn *pgx.Conn, config Config, confirmation Confirmation) error {
	run, err := newRun(conn, config)
	if err != nil {
		return err
	}
	if confirmation != DropEverything {
		return fmt.Errorf("%w: %q", ErrNotConfirmed, run.config.Schema)
	}
	return run.locked(ctx, func() error { return run.drop(ctx) })
}

func (r *run) drop(ctx context.Context) error {
	exists, err := r.schemaExists(ctx)
	if err != nil || !exists {
		return err
	}
	ours, err := r.tableExists(ctx)
	if err != nil {
		return err
	}
	if !ours || r.config.Schema == "public" {
		return fmt.Errorf("%w: %q", ErrNotOurs, r.config.Schema)
	}
	return r.exec(ctx, "drop schema "+r.quoted()+" cascade")
}
