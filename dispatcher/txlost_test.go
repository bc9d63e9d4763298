package dispatcher_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/store"
)

// slowCommit makes a transaction's commit wait for an advisory lock, 4711.
const slowCommit = `
	create function wait() returns trigger language plpgsql as
		'begin perform pg_advisory_xact_lock_shared(4711); return null; end';
	create table at_commit (); create constraint trigger wait after insert on at_commit
	deferrable initially deferred for each row execute function wait()`

// TestTxCommitUnanswered: the connection breaks while the commit is under way.
// Whether it took place, the dispatcher finds out, and the effect is there once.
func TestTxCommitUnanswered(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		terminate bool // the server ends the session: it does not commit
		runs      int32
	}{
		"committed":     {false, 1},
		"not committed": {true, 2},
	}
	for name, test := range tests {
		for _, key := range []string{"", "a"} {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				r := txRig(t)
				r.db.Exec(t, slowCommit)
				pool, proxy := r.proxied()
				d := r.dispatcherOn(pool, dispatcher.Config{})
				var runs atomic.Int32
				pids := make(chan uint32, 9)
				dispatcher.HandleTx(d, "k", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
					runs.Add(1)
					pids <- tx.Conn().PgConn().PID()
					if err := deferFailure(ctx, tx); err != nil {
						return err
					}
					return effect(ctx, tx, job)
				})
				gate := r.db.Conn(t)
				if _, err := gate.Exec(t.Context(), "select pg_advisory_lock(4711)"); err != nil {
					t.Fatal(err)
				}
				id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: key})[0]
				r.start(d)
				pid := receive(t, "the handler", pids)
				r.until("exists (select from pg_locks where pid = $1 and objid = 4711 and not granted)", pid)
				if test.terminate {
					r.db.Exec(t, "select pg_terminate_backend($1)", pid)
				}
				proxy.Set(faultproxy.Fault{Refuse: true}) // also pgx's request to cancel the commit
				proxy.Reset()
				if _, err := gate.Exec(t.Context(), "select pg_advisory_unlock(4711)"); err != nil {
					t.Fatal(err)
				}
				r.until("not exists (select from pg_locks where pid = $1)", pid)
				proxy.Set(faultproxy.Fault{})
				r.awaitType(dispatcher.Recorded, id)
				if state, attempt, _ := r.fate(id); state != "completed" || attempt != 1 {
					t.Errorf("%s in attempt %d", state, attempt)
				}
				if runs.Load() != test.runs || r.effects() != 1 {
					t.Errorf("%d runs with %d effects, want %d with 1", runs.Load(), r.effects(), test.runs)
				}
			})
		}
	}
}
