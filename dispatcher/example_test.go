package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// Invoice is a payload.
type Invoice struct {
	Number string `json:"number"`
	Cents  int64  `json:"cents"`
}

// A service that embeds a dispatcher: it works until it is told to stop, and
// then lets what runs come to its end.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		slog.Error("database", "error", err)
		return
	}
	defer pool.Close()

	d, err := dispatcher.New(pool, dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 50}, "slow": {Concurrency: 2}},
	})
	if err != nil {
		slog.Error("dispatcher", "error", err)
		return
	}
	dispatcher.Handle(d, "invoice.send", func(ctx context.Context, job dispatcher.Job[Invoice]) error {
		return send(ctx, job.Payload)
	})
	d.Configure("invoice.send", dispatcher.HandlerConfig{Timeout: time.Minute})
	if err := d.Run(ctx); err != nil {
		slog.Error("dispatcher", "error", err)
	}
}

// What the handler does in tx, and that the job is completed, commit together.
func ExampleHandleTx() {
	d := newDispatcher()
	dispatcher.HandleTx(d, "invoice.post", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[Invoice]) error {
		_, err := tx.Exec(ctx, "insert into ledger (invoice, cents) values ($1, $2)", job.Payload.Number, job.Payload.Cents)
		if err != nil {
			return err
		}
		// This job, too, is there if and only if the transaction commits.
		_, err = store.New(tx).Enqueue(ctx, store.NewJob{Kind: "invoice.send", OrderingKey: job.OrderingKey, Payload: job.Payload})
		return err
	})
}

// The outcomes that a handler can have.
func ExampleRetryAfter() {
	d := newDispatcher()
	dispatcher.Handle(d, "invoice.send", func(ctx context.Context, job dispatcher.Job[Invoice]) error {
		status, err := push(ctx, job.Payload)
		switch {
		case err != nil:
			return err // failed: again after the queue's backoff
		case status == http.StatusTooManyRequests:
			return dispatcher.RetryAfter(30*time.Second, errors.New("too many requests"))
		case status == http.StatusNotFound:
			return backoff.Permanent(errors.New("no such customer")) // dead at once
		case status == http.StatusAccepted:
			return dispatcher.Snooze(time.Minute) // not ready: look again, no attempt used
		}
		return job.SetResult(map[string]int{"status": status}) // completed
	})
}

// The fence tells a system outside which attempt is the later one: it only
// grows along a lane, so whoever writes with an older one comes too late.
func ExampleClaimOf() {
	d := newDispatcher()
	dispatcher.Handle(d, "stock.set", func(ctx context.Context, job dispatcher.Job[Invoice]) error {
		claim, _ := dispatcher.ClaimOf(ctx)
		_, err := warehouse.Exec(ctx, "update stock set cents = $1, fence = $2 where item = $3 and fence <= $2",
			job.Payload.Cents, claim.Fence, job.OrderingKey)
		return err
	})
}

// Middleware sees every job, and every error, on its way.
func ExampleMiddleware() {
	logged := func(next dispatcher.HandlerFunc) dispatcher.HandlerFunc {
		return func(ctx context.Context, job store.Job) error {
			err := next(ctx, job)
			slog.InfoContext(ctx, "ran", "kind", job.Kind, "id", job.ID, "error", err)
			return err
		}
	}
	d, err := dispatcher.New(pool, dispatcher.Config{Middleware: []dispatcher.Middleware{logged}})
	if err != nil {
		slog.Error("dispatcher", "error", err)
		return
	}
	dispatcher.Handle(d, "invoice.send", func(ctx context.Context, job dispatcher.Job[Invoice]) error {
		return send(ctx, job.Payload)
	})
}

// In tests, and to drain a queue.
func ExampleDispatcher_RunUntilIdle() {
	d := newDispatcher()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.RunUntilIdle(ctx); err != nil {
		fmt.Println(err)
	}
}

var pool, warehouse *pgxpool.Pool

func newDispatcher() *dispatcher.Dispatcher                 { return nil }
func send(context.Context, Invoice) error                   { return nil }
func push(context.Context, Invoice) (status int, err error) { return http.StatusOK, nil }
