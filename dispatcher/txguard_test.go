package dispatcher_test

import (
	"math"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// TestTxWithoutConnectionCheck: a server whose system can't check a client's
// connection refuses the setting. However many are refused at a time, each goes
// on without it.
func TestTxWithoutConnectionCheck(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	r.db.Exec(t, `
		create schema refusing;
		create function refusing.set_config(name text, value text, local boolean) returns text language plpgsql as $$
		begin
			if name = 'client_connection_check_interval' then
				perform pg_advisory_xact_lock_shared(4711);
				raise invalid_parameter_value;
			end if;
			return pg_catalog.set_config(name, value, local);
		end $$`)
	cfg := r.pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = "refusing, pg_catalog, public"
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{})
	dispatcher.HandleTx(d, "k", effect)
	gate := r.db.Conn(t)
	if _, err := gate.Exec(t.Context(), "select pg_advisory_lock(4711)"); err != nil {
		t.Fatal(err)
	}
	ids := r.enqueue(store.NewJob{Kind: "k"}, store.NewJob{Kind: "k"}, store.NewJob{Kind: "k"})
	r.start(d)
	r.until("count(*) = 3 from pg_locks where objid = 4711 and not granted")
	if _, err := gate.Exec(t.Context(), "select pg_advisory_unlock(4711)"); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r.awaitType(dispatcher.Recorded, id)
		if state, attempt, note := r.fate(id); state != "completed" || attempt != 1 {
			t.Errorf("%s in attempt %d (%s)", state, attempt, note)
		}
	}
}

// TestTxTimeoutBeyondTheServers: a handler may have more time than the server can
// be told of.
func TestTxTimeoutBeyondTheServers(t *testing.T) {
	t.Parallel()
	r := txRig(t)
	d := r.dispatcher(dispatcher.Config{})
	timeouts := map[string]time.Duration{"month": 30 * 24 * time.Hour, "ever": math.MaxInt64}
	for kind, timeout := range timeouts {
		dispatcher.HandleTx(d, kind, effect)
		d.Configure(kind, dispatcher.HandlerConfig{Timeout: timeout})
	}
	for kind := range timeouts {
		id := r.enqueue(store.NewJob{Kind: kind})[0]
		r.runUntilIdle(d)
		if state, attempt, note := r.fate(id); state != "completed" || attempt != 1 {
			t.Errorf("%s: %s in attempt %d (%s)", kind, state, attempt, note)
		}
	}
}
