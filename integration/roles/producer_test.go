package roles

import (
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// What enqueueing with a dedupe key calls with the owner's rights, a producer can
// call by itself. It reaches no job but those that the producer's transaction
// inserted, and those that have the key.
func TestProducerReachesNoOthersJobs(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	producer := roles(t, db, "producer")[0]
	db.Exec(t, "select lockstep.grant_producer($1)", producer)
	db.Exec(t, `insert into lockstep.job (id, kind, payload, dedupe_key) values (101, 'k', '{"n": 1}', null), (102, 'k', '{"n": 1}', 'a')`)
	conn := as(t, db, producer)
	for _, call := range []string{
		"select lockstep.enqueue('mine', dedupe_key => 'mine')",
		"select lockstep.pass_gate(101, 'default', '', 'mine', 'reject', null)",
		"select lockstep.pass_gate(102, 'default', '', 'mine', 'reject', null)",
		`select lockstep.meet(jsonb_populate_record(null::lockstep.job, jsonb_build_object('kind', 'k', 'queue', 'default', 'tenant', '', 'dedupe_key', 'b',
			'payload', jsonb_build_object('n', 2), 'headers', '{}'::jsonb, 'run_at', now(), 'max_attempts', 1, 'priority', 0)), 'replace', id, 'k', null, false, 1, null)
		   from generate_series(101, 110) id`,
	} {
		if _, err := conn.Exec(t.Context(), call); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	db.Exec(t, `insert into lockstep.job (id, kind, payload) values (103, 'k', '{"n": 1}')`)
	db.Exec(t, "select lockstep.due()")
	got := testdb.Value[string](t, db, "select string_agg(id || ': ' || payload, ', ' order by id) from lockstep.job where kind = 'k'")
	if want := `101: {"n": 1}, 102: {"n": 1}, 103: {"n": 1}`; got != want {
		t.Errorf("the jobs of others are %s; want %s", got, want)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.noted_payloads"); n != 0 {
		t.Errorf("%d payloads are noted", n)
	}
}
