package protocol_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestOneJobWrappers: what people and small workers call is finish for one job.
func TestOneJobWrappers(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		`complete(worker, id, fence, '{"n": 1}')`:          "completed after 1",
		`fail(worker, id, fence, 'no')`:                    "retrying after 1",
		`fail(worker, id, fence, 'no', permanent => true)`: "dead after 1",
		`fail(worker, id, fence, 'no', delay => '0')`:      "ready after 1",
		`snooze(worker, id, fence, '1 hour')`:              "scheduled after 0",
		`release(worker, id, fence)`:                       "ready after 0",
		`release(gen_random_uuid(), id, fence)`:            "running after 1",
		`complete(worker, id, fence - 1)`:                  "running after 1",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			db.Exec(t, `select lockstep.enqueue('k', ordering_key => 'a')`)
			db.Exec(t, `select lockstep.claim(gen_random_uuid(), 'default', '{k}', 1, '1 min')`)
			answer := testdb.Value[string](t, db, `select lockstep.`+call+` from lockstep.job`)
			expected := "done"
			if want == "running after 1" {
				expected = "lost"
			}
			if answer != expected {
				t.Errorf("answered %s, want %s", answer, expected)
			}
			if got := testdb.Value[string](t, db, `select format('%s after %s', state, attempt) from lockstep.jobs`); got != want {
				t.Errorf("the job is %s, want %s", got, want)
			}
		})
	}
}

// TestNobodyReportsNothing: the worker in the row of a job that is not claimed
// is no worker, and can't complete it.
func TestNobodyReportsNothing(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, `select lockstep.enqueue('k')`)
	_, err := db.Conn(t).Exec(t.Context(), `select lockstep.complete(worker, id, fence) from lockstep.job`)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "LS002" || refused.ColumnName != "worker" {
		t.Errorf("ended with %v, want LS002 for worker", err)
	}
	if state := testdb.Value[string](t, db, `select state from lockstep.jobs`); state != "ready" {
		t.Errorf("the job is %s", state)
	}
}
