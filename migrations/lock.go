package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lockTimeout is how long a migration waits for any lock: everyone who wants
// the same table queues up behind it meanwhile.
const lockTimeout = "2s"

// locked runs change in a transaction that holds the schema's migration lock.
// A lock that can't be had within lockTimeout ends the attempt, everything is
// rolled back, and the next comes after a pause, until the context ends.
func (r *run) locked(ctx context.Context, change func() error) error {
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(3*time.Second),
		backoff.WithMaxElapsedTime(0), // for ever
	)
	var last error
	attempt := func() error {
		last = r.attempt(ctx, change)
		if last == nil || worthRepeating(last) {
			return last
		}
		return backoff.Permanent(last)
	}
	waiting := func(err error, pause time.Duration) {
		r.config.Logger.InfoContext(ctx, "a migration waits for a lock",
			"schema", r.config.Schema, "error", err, "next_attempt_in", pause)
	}
	err := backoff.RetryNotify(attempt, backoff.WithContext(pauses, ctx), waiting)
	if err != nil && !errors.Is(last, err) {
		return fmt.Errorf("%w, waiting for: %w", err, last)
	}
	return err
}

// attempt is one transaction. Its settings hold whatever the session's are, and
// end with it.
func (r *run) attempt(ctx context.Context, change func() error) error {
	err := r.exec(ctx, `begin isolation level read committed read write;
		set local search_path = pg_catalog, pg_temp;
		set local standard_conforming_strings = on;
		set local client_min_messages = warning;
		set local statement_timeout = 0;
		set local lock_timeout = '`+lockTimeout+`'`)
	if err == nil {
		// Its number comes from the schema's name alone, since there may be no
		// schema yet whose functions could tell it.
		_, err = r.conn.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('lockstep migration ' || $1, 0))",
			pgx.QueryExecModeExec, r.config.Schema)
	}
	if err == nil {
		err = change()
	}
	if err != nil {
		return errors.Join(err, r.rollback(ctx))
	}
	return r.exec(ctx, "commit")
}

// rollback gives the connection back as it came. One that is closed, as after
// the context's end, has nothing to roll back.
func (r *run) rollback(ctx context.Context) error {
	if r.conn.IsClosed() {
		return nil
	}
	return r.exec(ctx, "rollback")
}

// worthRepeating tells of an error that ends with somebody else's transaction.
func worthRepeating(err error) bool {
	const lockNotAvailable, deadlockDetected = "55P03", "40P01"
	var postgres *pgconn.PgError
	return errors.As(err, &postgres) &&
		(postgres.Code == lockNotAvailable || postgres.Code == deadlockDetected)
}
