package producers_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// badJobs are jobs that must be refused by the name of a field.
var badJobs = map[string]struct {
	job   store.NewJob
	field string
	says  string
}{
	"empty kind":                {store.NewJob{}, "kind", "empty"},
	"long kind":                 {store.NewJob{Kind: strings.Repeat("k", 201)}, "kind", "201 bytes"},
	"zero in kind":              {store.NewJob{Kind: "a\x00"}, "kind", "zero character"},
	"kind not UTF-8":            {store.NewJob{Kind: "a\xff"}, "kind", "UTF-8"},
	"long queue":                {store.NewJob{Kind: "k", Queue: strings.Repeat("é", 101)}, "queue", "202 bytes"},
	"long tenant":               {store.NewJob{Kind: "k", Tenant: strings.Repeat("t", 201)}, "tenant", "201 bytes"},
	"long ordering key":         {store.NewJob{Kind: "k", OrderingKey: strings.Repeat("o", 1001)}, "ordering_key", "1001 bytes"},
	"zero in ordering key":      {store.NewJob{Kind: "k", OrderingKey: "\x00"}, "ordering_key", "zero character"},
	"long dedupe key":           {store.NewJob{Kind: "k", DedupeKey: strings.Repeat("d", 1001)}, "dedupe_key", "1001 bytes"},
	"unknown policy":            {store.NewJob{Kind: "k", DedupeKey: "d", Dedupe: "replaced"}, "dedupe", "reject, replace or one_more"},
	"policy without a key":      {store.NewJob{Kind: "k", Dedupe: store.DedupeOneMore}, "dedupe", "dedupe_key"},
	"long idempotency key":      {store.NewJob{Kind: "k", IdempotencyKey: strings.Repeat("i", 1001)}, "idempotency_key", "1001 bytes"},
	"zero in idempotency key":   {store.NewJob{Kind: "k", IdempotencyKey: "\x00"}, "idempotency_key", "zero character"},
	"priority 10":               {store.NewJob{Kind: "k", Priority: 10}, "priority", "between -9 and 9"},
	"priority -10":              {store.NewJob{Kind: "k", Priority: -10}, "priority", "between -9 and 9"},
	"priority 2^40":             {store.NewJob{Kind: "k", Priority: 1 << 40}, "priority", "between -9 and 9"},
	"max attempts -1":           {store.NewJob{Kind: "k", MaxAttempts: -1}, "max_attempts", "between 1 and 32767"},
	"max attempts 32768":        {store.NewJob{Kind: "k", MaxAttempts: 32768}, "max_attempts", "between 1 and 32767"},
	"max attempts 2^40":         {store.NewJob{Kind: "k", MaxAttempts: 1 << 40}, "max_attempts", "between 1 and 32767"},
	"year 10000":                {store.NewJob{Kind: "k", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "run_at", "year 10000"},
	"year 10000 in UTC":         {store.NewJob{Kind: "k", RunAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600))}, "run_at", "year 10000"},
	"year -1":                   {store.NewJob{Kind: "k", RunAt: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "run_at", "year"},
	"negative delay":            {store.NewJob{Kind: "k", Delay: -1}, "delay", "negative"},
	"run_at and delay":          {store.NewJob{Kind: "k", RunAt: time.Unix(1, 0), Delay: 1}, "run_at", "delay"},
	"payload over the limit":    {store.NewJob{Kind: "k", Payload: strings.Repeat("x", 1<<20)}, "payload", "bytes long"},
	"payload over any limit":    {store.NewJob{Kind: "k", Payload: json.RawMessage(`"` + strings.Repeat("x", 200_000_000) + `"`)}, "payload", "bytes long"},
	"payload not JSON":          {store.NewJob{Kind: "k", Payload: json.RawMessage(`{"a":`)}, "payload", "not valid JSON"},
	"payload not UTF-8":         {store.NewJob{Kind: "k", Payload: json.RawMessage("\"\xff\"")}, "payload", "UTF-8"},
	"payload of no JSON type":   {store.NewJob{Kind: "k", Payload: func() {}}, "payload", "encoded"},
	"C54 zero in a value":       {store.NewJob{Kind: "k", Payload: map[string]string{"a": "x\x00"}}, "payload", "zero character"},
	"C54 zero in a key":         {store.NewJob{Kind: "k", Payload: map[string]string{"x\x00": "a"}}, "payload", "zero character"},
	"C54 zero nested":           {store.NewJob{Kind: "k", Payload: []any{[]any{map[string]any{"a": []string{"\x00"}}}}}, "payload", "zero character"},
	"C54 lone high surrogate":   {store.NewJob{Kind: "k", Payload: json.RawMessage(`["\ud800x"]`)}, "payload", "surrogate"},
	"C54 lone low surrogate":    {store.NewJob{Kind: "k", Payload: json.RawMessage(`{"\udc00": 1}`)}, "payload", "surrogate"},
	"C54 zero under a key":      {store.NewJob{Kind: "k", IdempotencyKey: "i", Payload: "\x00"}, "payload", "zero character"},
	"C54 zero in what replaces": {store.NewJob{Kind: "k", DedupeKey: "d", Dedupe: store.DedupeReplace, Payload: "\x00"}, "payload", "zero character"},
	"too much to replace":       {store.NewJob{Kind: "k", DedupeKey: "d", Dedupe: store.DedupeReplace, Payload: strings.Repeat("x", 1<<20)}, "payload", "bytes long"},
	"number beyond numeric":     {store.NewJob{Kind: "k", Payload: json.RawMessage(`[1e131072]`)}, "payload", "numeric"},
	"zero in headers":           {store.NewJob{Kind: "k", Headers: map[string]string{"a": "\x00"}}, "headers", "zero character"},
	"headers over their limit":  {store.NewJob{Kind: "k", Headers: map[string]string{"a": strings.Repeat("x", 1<<16)}}, "headers", "bytes long"},
}

// TestBadInputByGo: one by one, and as the third of a bulk call, where the
// answer names its place and none of the others is written.
func TestBadInputByGo(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	for name, bad := range badJobs {
		_, err := s.Enqueue(t.Context(), bad.job)
		expectField(t, name, err, bad.field, bad.says, 0)
		_, err = s.EnqueueMany(t.Context(), []store.NewJob{{Kind: "k"}, {Kind: "k", OrderingKey: "a"}, bad.job, {Kind: "k"}})
		expectField(t, name+" in bulk", err, bad.field, bad.says, 3)
	}
	expectNothing(t, db)
}

// TestBadInputInALaterPart: a bulk call that goes in several parts is checked
// as a whole before the first is written.
func TestBadInputInALaterPart(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	jobs := make([]store.NewJob, 25_000)
	for i := range jobs {
		jobs[i].Kind = "k"
	}
	jobs[22_221].Priority = 99
	_, err := store.New(db.Conn(t)).EnqueueMany(t.Context(), jobs)
	expectField(t, "a later part", err, "priority", "between", 22_222)
	expectNothing(t, db)
}

func expectField(t *testing.T, name string, err error, field, says string, ordinal int) {
	t.Helper()
	var refused *store.FieldError
	switch {
	case !errors.As(err, &refused) || !errors.Is(err, store.ErrInvalid):
		t.Errorf("%s: got %v, want a FieldError", name, err)
	case refused.Field != field || refused.Ordinal != ordinal:
		t.Errorf("%s: field %q of job %d is refused, want %q of %d: %v", name, refused.Field, refused.Ordinal, field, ordinal, err)
	case !strings.HasPrefix(refused.Message, field+" ") || !strings.Contains(refused.Message, says):
		t.Errorf("%s: the message %q does not say %q", name, refused.Message, says)
	case len(err.Error()) > 300:
		t.Errorf("%s: a message of %d bytes", name, len(err.Error()))
	}
}

func expectNothing(t *testing.T, db *testdb.DB) {
	t.Helper()
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 0 {
		t.Errorf("%d jobs were written", n)
	}
}
