package main

import (
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/migrations"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Create the schema or bring it up to this program's version."`
	Status migrateStatus `cmd:"" help:"Show the schema's version and what is amiss with it; ends in 1 if anything is."`
	Down   migrateDown   `cmd:"" help:"Drop the schema with every job in it."`
}

type migrateUp struct{ databaseFlags }

// Run applies what is pending.
func (c *migrateUp) Run(a *app) error {
	return c.withConn(a, func(conn *pgx.Conn, config migrations.Config) error {
		result, err := migrations.Up(a.ctx, conn, config)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "schema %q is at version %d (%d applied now)\n",
			config.Schema, result.Version, len(result.Applied))
		return err
	})
}

type migrateStatus struct{ databaseFlags }

// Run shows what there is, and fails if it is not as it should be.
func (c *migrateStatus) Run(a *app) error {
	return c.withConn(a, func(conn *pgx.Conn, config migrations.Config) error {
		state, err := migrations.Status(a.ctx, conn, config)
		if err != nil {
			return err
		}
		if err := printState(a.stdout, state); err != nil {
			return err
		}
		if n := len(state.Problems); n > 0 {
			return fmt.Errorf("schema %q: %s, listed above", state.Schema, counted(n, "problem"))
		}
		return nil
	})
}

func printState(w io.Writer, state migrations.State) error {
	_, err := fmt.Fprintf(w, "schema %q, version %d, PostgreSQL %s\n", state.Schema, state.Version, state.Server)
	for _, m := range state.Applied {
		fmt.Fprintf(w, "  applied  %04d_%s at %s\n", m.Version, m.Name, m.AppliedAt.UTC().Format(time.RFC3339))
	}
	for _, m := range state.Pending {
		fmt.Fprintf(w, "  pending  %s\n", m)
	}
	for _, problem := range state.Problems {
		fmt.Fprintf(w, "  problem  %v\n", problem)
	}
	return err
}

type migrateDown struct {
	databaseFlags
	DropEverything bool `help:"Confirm that all jobs, finished and not, are to be destroyed."`
}

// Run drops the schema, once that was confirmed.
func (c *migrateDown) Run(a *app) error {
	if !c.DropEverything {
		return usage("migrate down destroys every job in schema %q; confirm with --drop-everything", c.schema(a.env))
	}
	return c.withConn(a, func(conn *pgx.Conn, config migrations.Config) error {
		if err := migrations.Down(a.ctx, conn, config, migrations.DropEverything); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "schema %q is gone\n", config.Schema)
		return err
	})
}

// withConn calls fn with a connection, and what to migrate over it.
func (f databaseFlags) withConn(a *app, fn func(*pgx.Conn, migrations.Config) error) error {
	conn, err := f.serverFlags.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	return fn(conn, migrations.Config{Schema: f.schema(a.env), Logger: a.log})
}
