package order_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// worker is a dispatcher whose handler tells the witness what it does.
type worker struct {
	plan
	seed uint64
	pool *pgxpool.Pool // the handlers' own: a connection for each slot
	t    testing.TB
}

func (w *worker) run(ctx context.Context) error {
	d, err := dispatcher.New(w.pool, dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: w.slots}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	dispatcher.Handle(d, kind, w.handle)
	return d.Run(ctx)
}

var errDrawn = errors.New("drawn to fail")

// handle does its work whatever becomes of its context: a cancel that comes in
// time is one that lockstep carries out when the attempt fails.
func (w *worker) handle(ctx context.Context, job dispatcher.Job[struct{}]) error {
	ctx = context.WithoutCancel(ctx)
	draw := drawFor(w.seed+uint64(job.ID), uint64(job.Attempt))
	w.testify(ctx, job.ID, started)
	draw.rest(w.work)
	if draw.chance(w.failures) {
		w.testify(ctx, job.ID, failed)
		return dispatcher.RetryAfter(time.Duration(draw.IntN(20))*time.Millisecond, errDrawn)
	}
	w.testify(ctx, job.ID, completed)
	return nil
}

func (w *worker) testify(ctx context.Context, job int64, e event) {
	if err := testify(ctx, w.pool, job, e); err != nil {
		w.t.Errorf("the handlers' log has a hole: %v", err)
	}
}
