package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/store"
)

// TestTxOutlivesItsLease: while the run lock is held, neither the end of the
// lease nor a rival's claim takes the job away.
func TestTxOutlivesItsLease(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{})
	started, release := make(chan struct{}, 2), make(chan struct{})
	dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		started <- struct{}{}
		<-release
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return effect(ctx, tx, job)
	})
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	r.start(d)
	receive(t, "the handler", started)
	r.db.Exec(t, "update lockstep.job set lease_until = clock_timestamp() - interval '1 second'")
	rival, err := store.New(r.pool).Claim(t.Context(), store.ClaimArgs{
		Worker: store.NewWorkerID(), Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: time.Second,
	})
	if err != nil || len(rival.Jobs) != 0 {
		t.Errorf("a rival claims %v, %v", rival.Jobs, err)
	}
	close(release)
	r.awaitType(dispatcher.Recorded, id)
	if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 {
		t.Errorf("%s in attempt %d", state, attempt)
	}
	if r.effects() != 1 {
		t.Errorf("%d effects, want 1", r.effects())
	}
}

// TestTxTakenAwayBeforeTheLock: the claim is looked up behind the run lock, so a
// handler never starts for a job that is somebody else's by then.
func TestTxTakenAwayBeforeTheLock(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.HandleTx(d, "k", effect)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	if _, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock(lockstep.run_lock('default', '', 'a', 0))"); err != nil {
		t.Fatal(err)
	}
	r.start(d)
	r.awaitType(dispatcher.Started, id)
	r.db.Exec(t, "update lockstep.job set worker = gen_random_uuid(), fence = fence + 1000, lease_until = clock_timestamp() + interval '1 hour'")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitType(dispatcher.LeaseLost, id)
	if n := r.effects(); n != 0 {
		t.Errorf("%d effects of a lost claim", n)
	}
}

// TestTxWithoutHeartbeats: only the heartbeats are cut. A transactional
// handler's run lock stands for the lease that ends; a plain handler is told.
func TestTxWithoutHeartbeats(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	through, proxy := r.proxied()
	cfg := r.pool.Config()
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if strings.HasSuffix(c.RuntimeParams["application_name"], "heartbeat") {
			c.Host, c.Port = "127.0.0.1", through.Config().ConnConfig.Port
		}
		return nil
	}
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{Lease: 3 * time.Second})
	started := make(chan struct{}, 2)
	var ofPlain, ofTx error // why their contexts ended
	told := make(chan struct{})
	dispatcher.Handle(d, "plain", func(ctx context.Context, job dispatcher.Job[payload]) error {
		if job.Attempt > 1 {
			return nil
		}
		started <- struct{}{}
		<-ctx.Done()
		ofPlain = context.Cause(ctx)
		close(told)
		<-time.After(time.Second) // past the lease's end
		return ctx.Err()
	})
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, inner pgx.Tx, job dispatcher.Job[payload]) error {
		started <- struct{}{}
		<-told
		end, _ := dispatcher.LeaseEnd(ctx)
		<-time.After(time.Until(end.Add(time.Second)))
		ofTx = context.Cause(ctx)
		return effect(ctx, inner, job)
	})
	r.enqueue(store.NewJob{Kind: "plain"})
	id := r.enqueue(store.NewJob{Kind: "tx", OrderingKey: "a"})[0]
	r.start(d)
	receive(t, "a handler", started)
	receive(t, "a handler", started)
	proxy.Set(faultproxy.BlackHole)
	r.await("completed", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.JobID == id })
	proxy.Set(faultproxy.Fault{})
	if !errors.Is(ofPlain, dispatcher.ErrLeaseLost) || ofTx != nil {
		t.Errorf("the plain handler's context ended with %v, the transactional one's with %v", ofPlain, ofTx)
	}
	if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 || r.effects() != 1 {
		t.Errorf("%s in attempt %d with %d effects", state, attempt, r.effects())
	}
}
