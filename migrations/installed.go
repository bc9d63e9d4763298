package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What Up refuses, and Status reports.
var (
	// ErrServerVersion is a PostgreSQL older than 14.
	ErrServerVersion = errors.New("this PostgreSQL is too old")

	// ErrNewer is a schema that a later version of this program has migrated.
	ErrNewer = errors.New("the schema is newer than this program")

	// ErrChanged is a migration whose file is not the one that was applied.
	ErrChanged = errors.New("a migration was changed after it was applied")

	// ErrRenamed is a schema that was renamed: its functions look for their
	// tables under the old name.
	ErrRenamed = errors.New("the schema was renamed")
)

// minServerVersion is PostgreSQL 14, as server_version_num has it.
const minServerVersion = 140000

// Applied is a migration that the schema has.
type Applied struct {
	Version   int
	Name      string
	Checksum  string
	Schema    string // the schema's name at that time
	AppliedAt time.Time
}

// serverVersion is the server's version for people. Its error is
// ErrServerVersion for one that is too old.
func (r *run) serverVersion(ctx context.Context) (string, error) {
	var name string
	var number int
	err := r.conn.QueryRow(ctx,
		"select current_setting('server_version'), current_setting('server_version_num')::int",
		pgx.QueryExecModeExec).Scan(&name, &number)
	if err != nil {
		return "", fmt.Errorf("asking for the server's version: %w", err)
	}
	return name, checkServerVersion(name, number)
}

func checkServerVersion(name string, number int) error {
	if number < minServerVersion {
		return fmt.Errorf("%w: it is %s, Lockstep needs 14 or later", ErrServerVersion, name)
	}
	return nil
}

func (r *run) schemaExists(ctx context.Context) (exists bool, err error) {
	err = r.conn.QueryRow(ctx, "select exists (select from pg_catalog.pg_namespace where nspname = $1)",
		pgx.QueryExecModeExec, r.config.Schema).Scan(&exists)
	return exists, err
}

// tableExists asks the catalogue, which needs no right on the schema.
func (r *run) tableExists(ctx context.Context) (exists bool, err error) {
	err = r.conn.QueryRow(ctx, `select exists (
		select from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
		where nspname = $1 and relname = 'migration')`,
		pgx.QueryExecModeExec, r.config.Schema).Scan(&exists)
	return exists, err
}

// installed lists what was applied, in order.
func (r *run) installed(ctx context.Context) ([]Applied, error) {
	exists, err := r.tableExists(ctx)
	if err != nil || !exists {
		return nil, err
	}
	rows, err := r.conn.Query(ctx, // as JSON, since in text a time looks as the session's DateStyle says
		"select version, name, checksum, schema, pg_catalog.to_jsonb(applied_at) as applied_at from "+r.quoted()+".migration order by version",
		pgx.QueryExecModeExec)
	if err != nil {
		return nil, fmt.Errorf("reading the applied migrations: %w", err)
	}
	applied, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Applied])
	if err != nil {
		return nil, fmt.Errorf("reading the applied migrations: %w", err)
	}
	return applied, nil
}

// check compares what was applied with this program's files.
func (r *run) check(installed []Applied) error {
	if len(installed) > len(r.set) {
		return fmt.Errorf("%w: %q is at version %d, this program knows up to %d; use a newer program",
			ErrNewer, r.config.Schema, installed[len(installed)-1].Version, len(r.set))
	}
	for i, applied := range installed {
		if applied.Schema != r.config.Schema {
			return fmt.Errorf("%w: %q was migrated as %q; give it that name again, or drop it and migrate anew",
				ErrRenamed, r.config.Schema, applied.Schema)
		}
		if file := r.set[i]; applied.Version != file.Version || applied.Name != file.Name || !r.mayDiffer(file, installed) && applied.Checksum != file.Checksum {
			return fmt.Errorf("%w: version %d of %q is %s here; before v0.1.0 files may change: drop the schema (migrate down) and migrate again",
				ErrChanged, applied.Version, r.config.Schema, file)
		}
	}
	return nil
}

// mayDiffer tells whether the text of an applied file may have changed: that of
// a replaceable one, by an upgrade. So a version has one set of functions.
func (r *run) mayDiffer(file Migration, installed []Applied) bool {
	return file.Replaceable && len(installed) < len(r.set)
}

// difference is what brings a schema that passed check up to date.
func (r *run) difference(installed []Applied) (pending []Migration) {
	for i, file := range r.set {
		if i >= len(installed) || installed[i].Checksum != file.Checksum {
			pending = append(pending, file)
		}
	}
	return pending
}
