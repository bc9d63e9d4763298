package dispatcher_test

import (
	"testing"

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
