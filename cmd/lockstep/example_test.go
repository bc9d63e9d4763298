package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// The README shows the type and the functions serve and issue as they are here.

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

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := postgres.Start(ctx, postgres.Config{})
	must(err)
	defer server.Close()
	pool, err := pgxpool.New(ctx, server.URL("postgres"))
	must(err)
	defer pool.Close()
	must(pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		_, err := migrations.Up(ctx, conn.Conn(), migrations.Config{})
		return err
	}))

	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return errors.Join(
			issue(ctx, tx, "customer-7", Invoice{"2030-001"}),
			issue(ctx, tx, "customer-7", Invoice{"2030-002"}),
		)
	}))
	served := make(chan error)
	go func() { served <- serve(ctx, pool) }()
	for completed := 0; completed < 2; {
		must(pool.QueryRow(ctx, "select count(*) from lockstep.jobs where state = 'completed'").Scan(&completed))
	}
	stop()
	must(<-served)
	// Output:
	// sending 2030-001
	// sending 2030-002
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
