package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// reader reads one schema.
type reader struct {
	db      DB
	schema  string // quoted
	timeout time.Duration
}

// tuneSQL makes a transaction harmless to others and sure of itself: names mean
// PostgreSQL's own, no workers are borrowed, memory is bounded. A table that was
// never analysed must not lead to a join by nested loops over all of it. Rows that
// row-level security hides are an error: they would be missing.
const tuneSQL = `select set_config('search_path', 'pg_catalog, pg_temp', true), set_config('max_parallel_workers_per_gather', '0', true),
	set_config('row_security', 'off', true),
	set_config('jit', 'off', true), set_config('enable_nestloop', 'off', true), set_config('work_mem', '16MB', true),
	set_config('statement_timeout', coalesce($1, current_setting('statement_timeout')), true)`

// snapshot calls fn with a read-only transaction in which every statement sees
// the same state.
func (r reader) snapshot(ctx context.Context, fn func(pgx.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // there is nothing to keep
	if _, err := tx.Exec(ctx, tuneSQL, r.timeoutSetting()); err != nil {
		return err
	}
	return fn(tx)
}

// timeoutSetting is the value of statement_timeout; nil leaves it as it is.
func (r reader) timeoutSetting() *string {
	var setting string
	switch {
	case r.timeout == 0:
		return nil
	case r.timeout > 0:
		setting = fmt.Sprintf("%dms", max(1, r.timeout.Milliseconds()))
	default:
		setting = "0"
	}
	return &setting
}

// sql fills in the schema, and what every statement may need.
func (r reader) sql(statement string) string {
	return strings.NewReplacer("@schema@", r.schema, "@nobody@", "'00000000-0000-0000-0000-000000000000'::uuid").Replace(statement)
}

// each streams the rows of a statement through fn, which scans them into into.
func (r reader) each(ctx context.Context, tx pgx.Tx, statement string, args, into []any, fn func() error) error {
	rows, err := tx.Query(ctx, r.sql(statement), args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, fn)
	return err
}
