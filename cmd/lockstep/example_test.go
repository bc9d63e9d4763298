package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// The README shows the imports, the type and the functions as they are here.

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		_, err := migrations.Up(ctx, conn.Conn(), migrations.Config{})
		return err
	})
}

type Invoice struct {
	Number string
}

func serve(ctx context.Context, pool *pgxpool.Pool) error {
	d, err := dispatcher.New(pool, dispatcher.Config{})
	if err != nil {
		return err
	}
	dispatcher.Handle(d, "invoice.send", func(ctx context.Context, job dispatcher.Job[Invoice]) error {
		fmt.Println("sending", job.Payload.Number)
		return nil // completes the job; an error would retry it
	})
	dispatcher.HandleTx(d, "invoice.book", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[Invoice]) error {
		_, err := tx.Exec(ctx, "insert into ledger (invoice) values ($1)", job.Payload.Number)
		return err // nil: the row and the job's completion commit together
	})
	return d.Run(ctx) // until ctx ends, and what runs has ended
}

func issue(ctx context.Context, tx pgx.Tx, customer string, invoice Invoice) error {
	// Your own changes go here, in the same transaction.
	_, err := store.New(tx).Enqueue(ctx, store.NewJob{
		Kind:        "invoice.send",
		OrderingKey: customer, // one at a time, in order, for each customer
		Payload:     invoice,
	})
	return err
}
