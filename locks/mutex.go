package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Beginner begins transactions of its own: a *pgxpool.Pool, *pgxpool.Conn or
// *pgx.Conn. A pgx.Tx does not, and can't be used here: it would hold the mutex
// beyond fn.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// errHeldElsewhere ends the transaction of a refused mutex.
var errHeldElsewhere = errors.New("mutex held elsewhere")

// TryMutex runs fn in a READ COMMITTED transaction that holds the mutex name,
// and commits it if fn returns nil. If another transaction holds the mutex, fn
// is not run, and held is false without an error: somebody is at it.
//
// The mutex is free again when TryMutex returns or panics, or, if ctx has ended,
// once the server sees that the connection was closed. With an error, held says
// whether fn was run; errors.Is finds fn's own error in it. Names are any text
// but "", and belong to the schema; none of them meets a mutex of Lockstep's own.
func (l *Locks) TryMutex(ctx context.Context, db Beginner, name string, fn func(ctx context.Context, tx pgx.Tx) error) (held bool, err error) {
	if name == "" {
		return false, errors.New("mutex: name is empty")
	}
	// The state functions need READ COMMITTED, whatever the session's default.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	err = pgx.BeginTxFunc(ctx, db, options, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, l.tryMutex, name).Scan(&held); err != nil {
			return err
		}
		l.mutex.count(held)
		if !held {
			return errHeldElsewhere
		}
		return fn(ctx, tx)
	})
	if errors.Is(err, errHeldElsewhere) && !held {
		return false, nil
	}
	if err != nil {
		return held, fmt.Errorf("mutex %q: %w", name, err)
	}
	return held, nil
}
