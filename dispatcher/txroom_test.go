package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestRunUntilIdleBesideASlowClaim: a queue that waits for the connections which
// another's claim holds does not look without a pause meanwhile.
func TestRunUntilIdleBesideASlowClaim(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	r.db.Exec(t, `
		create function slow() returns trigger language plpgsql as $$
		begin
			if exists (select from before join after using (id) where after.attempt > before.attempt) then
				perform pg_sleep(1);
			end if;
			return null;
		end $$;
		create trigger slow after update on lockstep.job referencing old table as before new table as after
			for each statement execute function slow()`)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"slow": {}, "other": {}}, MaxTx: 1})
	dispatcher.HandleTx(d, "tx", effect)
	dispatcher.Handle(d, "plain", nop)
	r.enqueue(store.NewJob{Kind: "tx", Queue: "slow"})
	r.runUntilIdle(d)
	if n := r.effects(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked && e.Queue == "other" }); n > 50 {
		t.Errorf("%d looks at the other queue", n)
	}
}

// TestTxRoomIsShared: several queues together claim no more transactional jobs than
// there are connections for, neither at once nor as lanes are handed over; and all
// of them get their turn.
func TestTxRoomIsShared(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	const maxTx = 2
	queues := make(map[string]dispatcher.Queue)
	var jobs []store.NewJob
	for _, name := range []string{"a", "b", "c", "d"} {
		queues[name] = dispatcher.Queue{Concurrency: 5}
		for n := range 20 {
			key := ""
			if n%2 == 0 {
				key = name
			}
			jobs = append(jobs, store.NewJob{Kind: "k", Queue: name, OrderingKey: key})
		}
	}
	r.enqueue(jobs...)
	d := r.dispatcher(dispatcher.Config{Queues: queues, MaxTx: maxTx})
	dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		// Whose claim stands, and has not ended in its own transaction.
		if n := testdb.Value[int](r, r.db, "select count(*) from lockstep.job where lease_until > clock_timestamp() and not settled"); n > maxTx {
			t.Errorf("%d jobs are claimed, with %d connections", n, maxTx)
		}
		return effect(ctx, tx, job)
	})
	r.start(d)
	for n := range len(jobs) {
		r.await("recorded", n+1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded })
	}
	if n := r.effects(); n != len(jobs) {
		t.Errorf("%d effects, want %d", n, len(jobs))
	}
	r.await("connected", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Listening })
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked }); n > 10*len(jobs) {
		t.Errorf("%d looks for %d jobs", n, len(jobs))
	}
	quiet := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked })
	<-time.After(200 * time.Millisecond)
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked }); n > quiet+20 {
		t.Errorf("%d looks with nothing to do", n-quiet)
	}
}
