package producers_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// C53 by SQL: a text that PostgreSQL can't store never reaches a function. The
// claim stands, so that the worker can report again, with a clean text.
func TestC53ReportsBySQL(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c, worker := newClient(t, db), store.NewWorkerID()
	var id, fence int64
	take := func(kind string) {
		t.Helper()
		c.do("select lockstep.enqueue($1, max_attempts => 2)", kind)
		if err := c.QueryRow(t.Context(), `select (job ->> 'id')::bigint, (job ->> 'fence')::bigint
			from lockstep.claim($1, 'default', array[$2], 1, '1 minute') c, json_array_elements(c.jobs) job`, worker, kind).Scan(&id, &fence); err != nil {
			t.Fatal(err)
		}
	}
	take("bad")
	for what, code := range map[string]string{"a\x00b": "22021", "a\xff\xfeb": "22021", `"\u0000"`: "22P05", `{"a": "\ud800"}`: "22P02"} {
		report := "select lockstep.fail($1, $2, $3, $4)"
		if code != "22021" {
			report = "select lockstep.complete($1, $2, $3, $4::text::jsonb)"
		}
		if refused := refusal(t, c.try(report, worker, id, fence, what)); refused == nil || refused.Code != code {
			t.Errorf("%q: got %v, want %s", what, refused, code)
		}
	}
	for error, kept := range map[string]string{"a\ufffdb": "a\ufffdb", strings.Repeat("é", 70_000): strings.Repeat("é", 65_536), "": ""} {
		if said := testdb.Value[string](t, db, "select lockstep.fail($1, $2, $3, $4, delay => '0')", worker, id, fence, error); said != "done" {
			t.Errorf("%.10q: %s", error, said)
		}
		if got := testdb.Value[string](t, db, "select error from lockstep.attempts where job_id = $1 and attempt = 1", id); got != kept {
			t.Errorf("%.10q: %d signs are kept, want %d", error, utf8.RuneCountInString(got), utf8.RuneCountInString(kept))
		}
		if state := testdb.Value[string](t, db, "select state from lockstep.job_status($1)", id); state != "ready" {
			t.Errorf("%.10q: the job is %s", error, state)
		}
		take(fmt.Sprintf("of %d bytes", len(error)))
	}
}

// C56 by SQL: digits come back as they went in, by each function and by INSERT.
func TestC56DigitsBySQL(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	const number = "[9223372036854775807, 9007199254740993, 0.1, 1.0, -0.000000000000000001]"
	for _, sql := range []string{
		"select lockstep.enqueue('k', $1::text::jsonb)",
		`select lockstep.enqueue_many(('[{"kind": "k", "payload": ' || $1 || '}]')::jsonb)`,
		"insert into lockstep.job (kind, payload) values ('k', $1::text::jsonb)",
	} {
		db.Exec(t, sql, number)
	}
	n := testdb.Value[int](t, db, `select count(*) from lockstep.claim($1, 'default', '{k}', 9, '1 minute') c, json_array_elements(c.jobs) job
		where job ->> 'payload' = $2`, store.NewWorkerID(), number)
	if n != 3 {
		t.Errorf("%d of 3 payloads came back as %s", n, number)
	}
}

// C59 by SQL: what is over the limit is refused by name, however large it is, and
// what no JSON text may be by PostgreSQL itself.
func TestC59SizesBySQL(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	for _, bytes := range []int{1<<20 + 1, 10_000_000} {
		payload := fmt.Sprintf("to_jsonb(repeat('x', %d))", bytes-2)
		says := fmt.Sprintf("%d bytes long", bytes)
		c.expectRefused("select lockstep.enqueue('k', "+payload+")", "payload", says, "")
		c.expectRefused("select lockstep.enqueue_many(jsonb_build_array(jsonb_build_object('kind', 'k', 'payload', "+payload+")))", "payload", says, "job 1")
		if refused := refusal(t, c.try("insert into lockstep.job (kind, payload) values ('k', "+payload+")")); refused == nil || refused.ConstraintName != "job_payload_size" {
			t.Errorf("%d bytes by INSERT: %v", bytes, refused)
		}
	}
	if refused := refusal(t, c.try("select lockstep.enqueue('k', to_jsonb(repeat('x', 300000000)))")); refused == nil || refused.Code != "54000" {
		t.Errorf("300 MB: got %v, want 54000", refused)
	}
	expectNothing(t, db)
}
