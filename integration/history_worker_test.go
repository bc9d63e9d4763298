package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// historyTables hold what the handlers do. effect has a row for every time a
// change was applied, so a repetition shows; mismatch one for every change that
// did not find what it expected.
const historyTables = `
create table tree (path text primary key, blob text);
create table effect (seq bigint, fence bigint, pid integer default pg_backend_pid());
create table mismatch (seq bigint, path text, expected text, found text);
create table guard (path text primary key, fence bigint not null);
create table applied (seq bigint primary key)`

// db is what a change is applied on: a pool or a handler's transaction.
type db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// apply makes a change to the tree and records a mismatch if it does not meet
// the content that the history says comes before it.
func (c change) apply(ctx context.Context, tx db, fence int64) error {
	var found *string
	err := tx.QueryRow(ctx, `select blob from tree where path = $1`, c.Path).Scan(&found)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if !same(found, c.Prev) {
		if _, err := tx.Exec(ctx, `insert into mismatch values ($1, $2, $3, $4)`, c.Seq, c.Path, c.Prev, found); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `insert into effect (seq, fence) values ($1, $2)`, c.Seq, fence); err != nil {
		return err
	}
	if c.Blob == nil {
		_, err = tx.Exec(ctx, `delete from tree where path = $1`, c.Path)
		return err
	}
	_, err = tx.Exec(ctx, `insert into tree values ($1, $2) on conflict (path) do update set blob = excluded.blob`, c.Path, c.Blob)
	return err
}

func same(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// applyFenced is for a handler without the job's transaction: it refuses to
// work under an older fence than its path has seen, and knows a change that an
// attempt applied before it was killed.
func (c change) applyFenced(ctx context.Context, pool *pgxpool.Pool, fence int64) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into guard values ($1, $2)
			on conflict (path) do update set fence = excluded.fence where guard.fence < excluded.fence`, c.Path, fence)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("fence %d is older than what %s has seen", fence, c.Path)
		}
		tag, err = tx.Exec(ctx, `insert into applied values ($1) on conflict do nothing`, c.Seq)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return c.apply(ctx, tx, fence)
	})
}

// historyWorker is a dispatcher process: it applies changes. On
// SIGUSR1 the next handler that has had its effect says so and
// stays there, between effect and finish, until the process is killed.
func historyWorker(ctx context.Context, args []string) error {
	url, mode := args[0], args[1]
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := dispatcher.New(pool, dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 16}},
		Lease:  time.Second, // a killed lane stands still for as long
		MaxTx:  16,
	})
	if err != nil {
		return err
	}
	hold := holdOnRequest()
	if mode == "tx" {
		dispatcher.HandleTx(d, "file.change", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[change]) error {
			if err := job.Payload.apply(ctx, tx, job.Fence); err != nil {
				return err
			}
			hold()
			return nil
		})
	} else {
		dispatcher.Handle(d, "file.change", func(ctx context.Context, job dispatcher.Job[change]) error {
			if err := job.Payload.applyFenced(ctx, pool, job.Fence); err != nil {
				return err
			}
			hold()
			return nil
		})
	}
	fmt.Println("ready")
	return d.Run(ctx)
}

// holdOnRequest waits for SIGUSR1; the function it returns stops the first
// handler that comes by after one.
func holdOnRequest() func() {
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGUSR1)
	return func() {
		select {
		case <-requests:
			fmt.Println("held")
			select {} // until SIGKILL
		default:
		}
	}
}
