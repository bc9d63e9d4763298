package demo

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// retryDelay is how long a failed job waits: short, as the demo is.
const retryDelay = 150 * time.Millisecond

var errPlanned = errors.New("the demo planned this failure")

// handlers are what the demo's dispatchers run.
type handlers struct {
	book    *logbook
	tracker *tracker
}

// plain is a handler without a transaction.
func (h *handlers) plain(ctx context.Context, job dispatcher.Job[plan]) error {
	return h.attempt(ctx, job, func() error { return nil })
}

// ledger is a handler whose effect commits together with its job.
func (h *handlers) ledger(ctx context.Context, tx pgx.Tx, job dispatcher.Job[plan]) error {
	return h.attempt(ctx, job, func() error { return h.book.act(ctx, tx, job.ID) })
}

// attempt does what the plan says, and writes down that it started and how it
// ended, whatever happened in between.
func (h *handlers) attempt(ctx context.Context, job dispatcher.Job[plan], effect func() error) error {
	h.tracker.start(job.ID)
	if err := h.book.write(ctx, job.ID, eventStart); err != nil {
		return err
	}
	e := eventFailed
	err := work(ctx, job.Payload.Work)
	if err == nil {
		err = effect()
	}
	if err == nil {
		e = job.Payload.outcome(job.Attempt)
	}
	err = errors.Join(err, h.book.write(context.WithoutCancel(ctx), job.ID, e))
	h.tracker.end(job.ID, e)
	switch {
	case err != nil:
		return err
	case e == eventFailed:
		return dispatcher.RetryAfter(retryDelay, errPlanned)
	case e == eventDied:
		return backoff.Permanent(errPlanned)
	default:
		return nil
	}
}

func work(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
