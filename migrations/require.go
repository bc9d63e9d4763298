package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Queryer is what Require asks: a connection, a pool, or a transaction.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// latest is the version that this program's files lead to.
var latest = sync.OnceValue(func() int {
	names, err := fs.Glob(Files(), "*.sql")
	if err != nil {
		panic(err) // only for a pattern that is not valid, and this one is
	}
	return len(names)
})

// Require returns nil if a schema is at the version that this program is made
// for. Else its error is, wrapped, ErrPending for an older schema, ErrNewer for
// a newer one, and the server's own where there is no such schema (SQLSTATE
// 3F000) or it can't be asked. It needs no right but USAGE on the schema, takes no
// lock, and works in a transaction too.
func Require(ctx context.Context, db Queryer, schema string) error {
	if schema == "" {
		schema = DefaultSchema
	}
	var version *int
	err := db.QueryRow(ctx, "select "+pgx.Identifier{schema}.Sanitize()+".schema_version()", pgx.QueryExecModeExec).Scan(&version)
	const undefinedFunction = "42883"
	var postgres *pgconn.PgError
	switch {
	case errors.As(err, &postgres) && postgres.Code == undefinedFunction:
		return fmt.Errorf("%w: %q is older than this program, which needs version %d; run: lockstep migrate up", ErrPending, schema, latest())
	case err != nil:
		return fmt.Errorf("asking for the version of the schema %q: %w", schema, err)
	case version == nil || *version < latest():
		return fmt.Errorf("%w: %q is at version %d, this program needs %d; run: lockstep migrate up", ErrPending, schema, orZero(version), latest())
	case *version > latest():
		return fmt.Errorf("%w: %q is at version %d, this program knows up to %d; use a newer program", ErrNewer, schema, *version, latest())
	}
	return nil
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
