// Command worker runs a dispatcher of whatever version it is built with, until
// SIGTERM. It is built in the tree of core.tar.gz.
//
//	worker URL
//
// It prints "running" before the first claim, and a line for every trouble.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := dispatcher.New(pool, dispatcher.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		OnEvent: func(e dispatcher.Event) {
			if e.Type == dispatcher.Trouble {
				fmt.Printf("trouble: %s: %v\n", e.Reason, e.Err)
			}
		},
	})
	if err != nil {
		return err
	}
	const ran = "insert into public.ran (id, by) values ($1, 'old')"
	dispatcher.Handle(d, "plain", func(ctx context.Context, job dispatcher.Job[struct{}]) error {
		_, err := pool.Exec(ctx, ran, job.ID)
		return err
	})
	dispatcher.HandleTx(d, "transactional", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[struct{}]) error {
		_, err := tx.Exec(ctx, ran, job.ID)
		return err
	})
	fmt.Println("running")
	return d.Run(ctx)
}
