package demo

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// concurrency is how many jobs each dispatcher runs at a time.
const concurrency = 20

// dispatch runs a dispatcher until the context ends.
func (s *show) dispatch(ctx context.Context, pool *pgxpool.Pool, name string) error {
	d, err := dispatcher.New(pool, dispatcher.Config{
		Schema: s.db.schema,
		Name:   name,
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: concurrency}},
		MaxTx:  concurrency / 2,
		Logger: s.config.Logger,
	})
	if err != nil {
		return err
	}
	h := &handlers{book: s.book, tracker: s.tracker}
	dispatcher.Handle(d, kindPlain, h.plain)
	dispatcher.HandleTx(d, kindLedger, h.ledger)
	return d.Run(ctx)
}

// redeploy runs a dispatcher that is stopped halfway and started anew, as by a
// deploy: what it had claimed goes on elsewhere.
func (s *show) redeploy(ctx context.Context, pool *pgxpool.Pool, name string) error {
	first, cancel := context.WithTimeout(ctx, s.config.Length/2)
	defer cancel()
	if err := s.dispatch(first, pool, name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	return s.dispatch(ctx, pool, name)
}
