package store

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultSchema is where the migrations put Lockstep unless told otherwise.
const DefaultSchema = "lockstep"

// DB is what a Store works on: a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// beginner is a DB that is not a transaction yet.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Store calls the functions of one Lockstep schema. It holds no state and is
// as safe for concurrent use as the DB it stands on.
type Store struct {
	db     DB
	schema string // quoted
}

// New returns a Store on db for DefaultSchema. Given a transaction, what it
// does is part of that transaction, which must be READ COMMITTED for all but
// enqueueing.
func New(db DB) *Store {
	return (&Store{db: db}).In(DefaultSchema)
}

// In returns a copy of s that works on another schema.
func (s *Store) In(schema string) *Store {
	return &Store{db: s.db, schema: pgx.Identifier{schema}.Sanitize()}
}

// sql puts the quoted schema where a statement says @schema@.
func (s *Store) sql(statement string) string {
	return strings.ReplaceAll(statement, "@schema@", s.schema)
}

// do runs one statement through fn. The state functions refuse any isolation
// but READ COMMITTED; where a server, role or pooler defaults to another one,
// the call is repeated in a transaction that asks for the right one, which
// costs two round trips and nothing else: the refusal comes before any change.
func (s *Store) do(ctx context.Context, fn func(DB) error) error {
	err := wrap(fn(s.db))
	b, ok := s.db.(beginner)
	if !ok || !errors.Is(err, ErrIsolation) {
		return err
	}
	tx, err := b.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := fn(tx); err != nil {
		return wrap(err)
	}
	return wrap(tx.Commit(ctx)) // where deferred triggers run
}

// row runs a statement that answers with exactly one row, and scans it.
func (s *Store) row(ctx context.Context, statement string, args, into []any) error {
	return s.do(ctx, func(db DB) error {
		return db.QueryRow(ctx, s.sql(statement), args...).Scan(into...)
	})
}

// collect runs a statement and scans its rows into values of T, by position.
func collect[T any](ctx context.Context, s *Store, statement string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	var all []T
	err := s.do(ctx, func(db DB) error {
		rows, err := db.Query(ctx, s.sql(statement), args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}
