package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Result is what Up did.
type Result struct {
	// Applied are the migrations that this call applied, new ones and changed
	// replaceable ones; none when the schema was current, or another process was
	// faster.
	Applied []Migration

	// Version is the schema's version now.
	Version int
}

// Up brings the schema to this program's version: it applies every pending
// migration, all in one transaction, creating the schema if need be. A schema
// that is current is left alone, without taking a lock.
//
// The connection must not be in a transaction. Its user needs the right to
// create a schema in the database, or to own an empty one made for it; nothing
// more. Up waits, for as long as the context allows, for other processes that
// migrate and for locks that running work holds. It returns ErrServerVersion,
// ErrNewer, ErrChanged, ErrRenamed or ErrBrokenSet, wrapped, where it refuses.
func Up(ctx context.Context, conn *pgx.Conn, config Config) (Result, error) {
	run, err := newRun(conn, config)
	if err != nil {
		return Result{}, err
	}
	if _, err := run.serverVersion(ctx); err != nil {
		return Result{}, err
	}
	pending, err := run.pending(ctx)
	if err != nil {
		return Result{}, err
	}
	if len(pending) > 0 {
		err = run.locked(ctx, func() (err error) {
			pending, err = run.applyPending(ctx)
			return err
		})
	}
	if err != nil {
		return Result{}, err
	}
	for _, migration := range pending {
		run.config.Logger.InfoContext(ctx, "applied a migration", "schema", run.config.Schema, "migration", migration.String())
	}
	return Result{Applied: pending, Version: len(run.set)}, nil
}

// run is one call of this package: a connection, and what to do with it.
type run struct {
	conn   *pgx.Conn
	config Config
	set    []Migration
}

func newRun(conn *pgx.Conn, config Config) (*run, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	set, err := load(config.Files)
	if err != nil {
		return nil, err
	}
	if conn.PgConn().TxStatus() != 'I' {
		return nil, errors.New("migrations need a connection that is not in a transaction")
	}
	return &run{conn: conn, config: config, set: set}, nil
}

// quoted is the schema's name as an identifier.
func (r *run) quoted() string { return pgx.Identifier{r.config.Schema}.Sanitize() }

// pending lists what is to be applied, or says why that can't be done: new
// files, and replaceable ones that have changed, all in the order of a fresh
// install.
func (r *run) pending(ctx context.Context) ([]Migration, error) {
	installed, err := r.installed(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.check(installed); err != nil {
		return nil, err
	}
	return r.difference(installed), nil
}

// applyPending runs under the migration lock, in its transaction.
func (r *run) applyPending(ctx context.Context) ([]Migration, error) {
	if err := r.createSchema(ctx); err != nil {
		return nil, fmt.Errorf("creating the schema %q: %w", r.config.Schema, err)
	}
	pending, err := r.pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(pending) > 0 {
		if err := r.exec(ctx, Migration{sql: lockJobs}.render(r.config.Schema)); err != nil {
			return nil, fmt.Errorf("locking the jobs: %w", err)
		}
	}
	for _, migration := range pending {
		if err := r.apply(ctx, migration); err != nil {
			return nil, err
		}
	}
	if len(pending) == 0 {
		return nil, nil
	}
	return pending, r.exec(ctx, Migration{sql: secure}.render(r.config.Schema))
}

// lockJobs begins every change of a schema that has jobs. A migration that first
// has a weaker lock of the table, as to make an index, and then a stronger one
// would deadlock with work that is going on, over and over.
const lockJobs = `do $lockstep$ begin
  if to_regclass($name$@schema@.job$name$) is not null then
    lock table @schema@.job in access exclusive mode;
  end if;
end $lockstep$`

// secure ends every change of the schema: what is new in it is not PUBLIC's, and
// the roles on record get what they need of it.
const secure = `do $lockstep$ begin
  if to_regprocedure($name$@schema@.secure()$name$) is not null then
    perform @schema@.secure();
  end if;
end $lockstep$`

// createSchema makes the schema and the table of what was applied to it. Asking
// first means that an existing schema takes no right to create one.
func (r *run) createSchema(ctx context.Context) error {
	exists, err := r.schemaExists(ctx)
	if err != nil {
		return err
	}
	schema := r.quoted()
	if !exists {
		if err := r.exec(ctx, "create schema "+schema); err != nil {
			return err
		}
	}
	return r.exec(ctx, `create table if not exists `+schema+`.migration (
		version    int primary key,
		name       text not null,
		checksum   text not null,
		schema     text not null, -- the name that was filled in
		applied_at timestamptz not null default clock_timestamp()
	)`)
}

func (r *run) apply(ctx context.Context, migration Migration) error {
	sql := migration.render(r.config.Schema)
	if err := r.exec(ctx, sql); err != nil {
		return fmt.Errorf("%s%s: %w", migration, line(sql, err), err)
	}
	if r.conn.PgConn().TxStatus() != 'T' {
		return fmt.Errorf("%w: %s ends the transaction that it is applied in", ErrBrokenSet, migration)
	}
	_, err := r.conn.Exec(ctx,
		"insert into "+r.quoted()+`.migration as m (version, name, checksum, schema) values ($1, $2, $3, $4)
		 on conflict (version) do update set checksum = excluded.checksum, applied_at = clock_timestamp()`,
		pgx.QueryExecModeExec, migration.Version, migration.Name, migration.Checksum, r.config.Schema)
	return err
}

// exec runs any number of statements, by the simple protocol.
func (r *run) exec(ctx context.Context, sql string) error {
	_, err := r.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// line tells where in a file an error is, if PostgreSQL says so.
func line(sql string, err error) string {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || postgres.Position == 0 {
		return ""
	}
	before := []rune(sql)[:min(int(postgres.Position)-1, len([]rune(sql)))]
	return fmt.Sprintf(":%d", 1+strings.Count(string(before), "\n"))
}
