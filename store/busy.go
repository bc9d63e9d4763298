package store

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// ErrBusy means that another transaction had the job's row, or its lane,
// locked. Nothing was changed: try again. On a pool or a connection that has
// been done for 2 s already; in a transaction, which should not be held up,
// not at all.
var ErrBusy = errors.New("lockstep: locked by another transaction")

// What the functions for single jobs answer in that case.
const busy = "busy"

// busyFor is how long a row is tried for. Whoever locks one does so for the
// length of a statement, unless a person left a transaction open.
const busyFor = 2 * time.Second

// answer asks a function for a single job, again while that job is busy.
func (s *Store) answer(ctx context.Context, statement string, args ...any) (string, error) {
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(2*time.Millisecond),
		backoff.WithMaxInterval(100*time.Millisecond),
		backoff.WithMaxElapsedTime(busyFor),
	)
	return backoff.RetryWithData(func() (string, error) {
		var text string
		err := s.row(ctx, statement, args, []any{&text})
		switch _, outside := s.db.(beginner); {
		case err != nil:
			return "", backoff.Permanent(err)
		case text != busy:
			return text, nil
		case outside:
			return "", ErrBusy
		default:
			return "", backoff.Permanent(ErrBusy)
		}
	}, backoff.WithContext(pauses, ctx))
}
