package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/store"
)

func Example() {
	ctx := context.Background()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	server, err := postgres.Start(ctx, postgres.Config{})
	must(err)
	defer server.Close()
	pool, err := pgxpool.New(ctx, server.URL("postgres"))
	must(err)
	defer pool.Close()
	must(migrate(ctx, pool))
	_, err = pool.Exec(ctx, "create table ledger (invoice text)")
	must(err)

	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := store.New(tx).Enqueue(ctx, store.NewJob{Kind: "invoice.book", Payload: Invoice{"2030-001"}})
		return errors.Join(err,
			issue(ctx, tx, "customer-7", Invoice{"2030-001"}),
			issue(ctx, tx, "customer-7", Invoice{"2030-002"}),
		)
	}))
	served := make(chan error)
	go func() { served <- serve(serving, pool) }()
	for completed := 0; completed < 3; {
		must(pool.QueryRow(ctx, "select count(*) from lockstep.jobs where state = 'completed'").Scan(&completed))
	}
	stop()
	must(<-served)
	var booked string
	must(pool.QueryRow(ctx, "select invoice from ledger").Scan(&booked))
	fmt.Println("booked", booked)
	// Output:
	// sending 2030-001
	// sending 2030-002
	// booked 2030-001
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
