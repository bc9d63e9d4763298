package producers_test

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

type badField struct {
	field      string
	value      string // a SQL expression
	constraint string // "" for what is no column
	says       string
}

// badFields are the same job by three ways of SQL: an argument of enqueue() and
// a field of enqueue_many() are refused by name, a column of a plain INSERT by
// a constraint.
var badFields = []badField{
	{"kind", `''`, "job_kind_length", "empty"},
	{"kind", `repeat('k', 201)`, "job_kind_length", "201 bytes"},
	{"queue", `''`, "job_queue_length", "empty"},
	{"queue", `repeat('q', 201)`, "job_queue_length", "201 bytes"},
	{"tenant", `repeat('t', 201)`, "job_tenant_length", "201 bytes"},
	{"ordering_key", `''`, "job_ordering_key_length", "empty"},
	{"ordering_key", `repeat('o', 1001)`, "job_ordering_key_length", "1001 bytes"},
	{"dedupe_key", `''`, "job_dedupe_key_length", "empty"},
	{"dedupe_key", `repeat('d', 1001)`, "job_dedupe_key_length", "1001 bytes"},
	{"dedupe", `'replaced'`, "", "reject, replace or one_more"},
	{"dedupe", `'replace'`, "", "dedupe_key"},
	{"idempotency_key", `''`, "", "empty"},
	{"idempotency_key", `repeat('i', 1001)`, "", "1001 bytes"},
	{"priority", `10`, "job_priority_range", "between -9 and 9"},
	{"priority", `-10`, "job_priority_range", "between -9 and 9"},
	{"max_attempts", `0`, "job_max_attempts_range", "between 1 and 32767"},
	{"max_attempts", `32768`, "job_max_attempts_range", "between 1 and 32767"},
	{"run_at", `'infinity'::timestamptz`, "job_run_at_range", "finite"},
	{"run_at", `'-infinity'::timestamptz`, "job_run_at_range", "finite"},
	{"run_at", `'10000-01-01 00:00:00+00'::timestamptz`, "job_run_at_range", "year 10000"},
	{"payload", `to_jsonb(repeat('x', 1048576))`, "job_payload_size", "bytes long"},
	{"payload", `(repeat('[', 1001) || repeat(']', 1001))::jsonb`, "job_payload_depth", "1000 levels"},
	{"headers", `jsonb_build_object('a', (repeat('[', 1001) || repeat(']', 1001))::jsonb)`, "job_headers_depth", "1000 levels"},
	{"headers", `'[]'::jsonb`, "job_headers_object", "JSON object"},
	{"headers", `'"text"'::jsonb`, "job_headers_object", "JSON object"},
	{"headers", `jsonb_build_object('a', repeat('x', 65536))`, "job_headers_object", "bytes long"},
	{"delay", `'-1 second'::interval`, "", "between"},
	{"delay", `'10000 years'::interval`, "", "between"},
}

func TestBadInputBySQL(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	for _, bad := range badFields {
		arguments, object, insert := bad.forms()
		c.expectRefused("select lockstep.enqueue("+arguments+")", bad.field, bad.says, "")
		c.expectRefused(`select * from lockstep.enqueue_many(jsonb_build_array('{"kind": "k"}'::jsonb, `+object+`))`, bad.field, bad.says, "job 2")
		if bad.constraint == "" {
			continue
		}
		if refused := refusal(t, c.try(insert)); refused == nil || refused.Code != "23514" || refused.ConstraintName != bad.constraint {
			t.Errorf("%s: got %v, want constraint %s", insert, refused, bad.constraint)
		}
	}
	expectNothing(t, db)
}

// forms are the job as arguments, as a JSON object, and as an INSERT.
func (b badField) forms() (arguments, object, insert string) {
	if b.field == "kind" {
		return "kind => " + b.value, "jsonb_build_object('kind', " + b.value + ")", "insert into lockstep.job (kind) values (" + b.value + ")"
	}
	return "kind => 'k', " + b.field + " => " + b.value,
		"jsonb_build_object('kind', 'k', '" + b.field + "', " + b.value + ")",
		"insert into lockstep.job (kind, " + b.field + ") values ('k', " + b.value + ")"
}

// expectRefused wants LS002 with the field as its column.
func (c *client) expectRefused(sql, field, says, detail string) {
	c.t.Helper()
	if detail == "" {
		detail = "argument " + field
	}
	refused := refusal(c.t, c.try(sql))
	if refused == nil || refused.Code != "LS002" || refused.ColumnName != field || !strings.Contains(refused.Message, says) || refused.Detail != detail {
		c.t.Errorf("%s\ngot %+v\nwant LS002 for %s with %q and detail %q", sql, refused, field, says, detail)
	}
}

// TestBadBulkInputBySQL: what is wrong with a bulk call as a whole, or with a
// job that is none.
func TestBadBulkInputBySQL(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	for _, bad := range []struct{ jobs, field, says, detail string }{
		{`null`, "jobs", "array", ""},
		{`'{"kind": "k"}'`, "jobs", "array", ""},
		{`'[{"kind": "k"}, 7]'`, "jobs", "object", "job 2"},
		{`'[{"kind": "k", "kinds": "k", "id": 7}]'`, "jobs", "'id', 'kinds'", "job 1"},
		{`'[{"payload": {}}]'`, "kind", "empty", "job 1"},
		{`'[{"kind": null}]'`, "kind", "empty", "job 1"},
		{`'[{"kind": "k", "priority": 1e10}]'`, "priority", "between", "job 1"},
		{`'[{"kind": "k", "priority": 1.5}]'`, "priority", "whole", "job 1"},
		{`'[{"kind": "k", "max_attempts": 2.5}]'`, "max_attempts", "whole", "job 1"},
		{`'[{"kind": "k", "run_at": "2000-01-01", "delay": "1 hour"}]'`, "run_at", "delay", "job 1"},
	} {
		c.expectRefused("select * from lockstep.enqueue_many("+bad.jobs+")", bad.field, bad.says, bad.detail)
	}
	c.do("select * from lockstep.enqueue_many('[]')")
	expectNothing(t, db)
}

// TestC54NeverAValue: what PostgreSQL itself refuses, since it never becomes one.
func TestC54NeverAValue(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	for payload, code := range map[string]string{
		`"\u0000"`:           "22P05",
		`{"\u0000": 1}`:      "22P05",
		`[[{"a":"\u0000"}]]`: "22P05",
		`"\ud800"`:           "22P02",
		`"\udc00x"`:          "22P02",
		`1e131072`:           "22003",
		`{"a":`:              "22P02",
	} {
		for _, sql := range []string{
			"select lockstep.enqueue('k', $1::text::jsonb)",
			"select lockstep.enqueue_many(('[{\"kind\": \"k\", \"payload\": ' || $1 || '}]')::jsonb)",
			"insert into lockstep.job (kind, payload) values ('k', $1::text::jsonb)",
		} {
			if refused := refusal(t, c.try(sql, payload)); refused == nil || refused.Code != code {
				t.Errorf("%s with %s: got %v, want %s", sql, payload, refused, code)
			}
		}
	}
	if refused := refusal(t, c.try("insert into lockstep.job (payload) values ('{}')")); refused == nil || refused.Code != "23502" || refused.ColumnName != "kind" {
		t.Errorf("a job without a kind: got %v, want not_null_violation of kind", refused)
	}
	expectNothing(t, db)
}

// What a JSON object gives as text, and is no number, time or interval, is told
// with the job's place, as what is out of range is.
func TestBadValuesInBulk(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	for field, says := range map[string]string{"priority": "a number", "max_attempts": "a number", "run_at": "a time", "delay": "an interval"} {
		for _, value := range []string{`"soon"`, `[]`, `{}`, `true`, `""`} {
			c.expectRefused(`select * from lockstep.enqueue_many('[{"kind": "k", "delay": "1 hour"}, {"kind": "k", "`+field+`": `+value+`}]')`, field, says, "job 2")
		}
	}
	c.expectRefused(`select * from lockstep.enqueue_many('[{"kind": "k", "run_at": "2030-02-30"}]')`, "run_at", "a time", "job 1")
	expectNothing(t, db)
}
