package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
)

// stub is a shift whose database is away. Each try to reach it calls tried.
func stub(t *testing.T, ctx context.Context, cfg Config, tried func()) *shift {
	t.Helper()
	pool, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	pool.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		tried()
		return errors.New("away")
	}
	p, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return still(t, ctx, p, cfg)
}

// still is a shift that handles the kind k, and has begun nothing yet.
func still(t *testing.T, ctx context.Context, pool *pgxpool.Pool, cfg Config) *shift {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	d, err := New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.register("k", false, func(context.Context, store.Job) error { return nil })
	handlers, err := d.configured()
	if err != nil {
		t.Fatal(err)
	}
	return newShift(ctx, d, handlers)
}
