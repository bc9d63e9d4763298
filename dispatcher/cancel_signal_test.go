package dispatcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// TestACancelReachesItsHandlerBySignal, long before a heartbeat or a poll would
// tell; the effects of a transactional one are rolled back.
func TestACancelReachesItsHandlerBySignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.db.Exec(t, "create table effect (id bigint)")
	d := r.dispatcher(dispatcher.Config{Lease: time.Hour, Poll: time.Hour})
	causes, inside := make(chan error, 2), make(chan struct{}, 2)
	dispatcher.Handle(d, "plain", func(ctx context.Context, _ dispatcher.Job[payload]) error {
		inside <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if _, err := tx.Exec(ctx, "insert into effect values ($1)", job.ID); err != nil {
			return err
		}
		inside <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	r.start(d)
	r.await("connected", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Listening && e.Reason == "connected" })
	for _, kind := range []string{"plain", "tx"} {
		id := r.enqueue(store.NewJob{Kind: kind, OrderingKey: "a"})[0]
		receive(t, "the handler", inside)
		asked := time.Now()
		r.until("lockstep.cancel($1) = 'requested'", id) // busy while a heartbeat has the row
		if cause := receive(t, "the cause", causes); !errors.Is(cause, dispatcher.ErrCancelled) {
			t.Errorf("the context ended with %v", cause)
		}
		t.Logf("%v after the cancel", time.Since(asked))
		r.awaitType(dispatcher.Recorded, id)
		if state, _, note := r.fate(id); state != "cancelled" {
			t.Errorf("job %d is %s (%s)", id, state, note)
		}
	}
	r.until("not exists (select from effect)")
}
