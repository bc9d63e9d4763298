package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/store"
)

// jobFields are those of enqueue.
var jobFields = strings.Fields("kind payload queue tenant ordering_key priority run_at delay max_attempts dedupe_key dedupe idempotency_key headers")

func TestParseJobReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := store.ParseJob([]byte(`{"kind": "k", "payload": [1.50], "queue": "q", "tenant": "t", "ordering_key": "o", "priority": -3,
		"run_at": "2030-01-31T12:00:00Z", "max_attempts": 4, "dedupe_key": "d",
		"dedupe": "replace", "idempotency_key": "i", "headers": {"a": "b"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := store.NewJob{
		Kind: "k", Payload: json.RawMessage("[1.50]"), Queue: "q", Tenant: "t", OrderingKey: "o", Priority: -3,
		RunAt: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC), MaxAttempts: 4, DedupeKey: "d",
		Dedupe: store.DedupeReplace, IdempotencyKey: "i",
		Headers: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the job differs (-want +got):\n%s", diff)
	}
}

func TestParseJobRefuses(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		`[]`:                                  "not a JSON object",
		`"x"`:                                 "not a JSON object",
		`{"kind": "k"`:                        "ends in the middle",
		`{"kind": "k", "payload": {"a": `:     "payload: not valid JSON",
		`{"kind": "k"} {"kind": "l"}`:         "more than one JSON value",
		`{"kind": "k"} x`:                     "more than one JSON value",
		`{"Kind": "k"}`:                       `unknown key "Kind"`,
		`{"kind": "k", "prority": 1}`:         `unknown key "prority"`,
		`{"kind": "k", "kind": "l"}`:          `key "kind" appears twice`,
		`{"kind": null, "kind": "l"}`:         `key "kind" appears twice`,
		`{"kind": 1}`:                         "kind must be a string",
		`{"kind": "\ud800"}`:                  "kind holds a lone surrogate",
		`{"kind": "\udc00"}`:                  "kind holds a lone surrogate",
		`{"kind": "\ud800\n\udc00"}`:          "kind holds a lone surrogate",
		`{"kind": "\ud800 \udc00"}`:           "kind holds a lone surrogate",
		`{"kind": "\ud800\ud800\udc00"}`:      "kind holds a lone surrogate",
		"{\"tenant\": \"\xff\"}":              "tenant is not valid UTF-8",
		`{"priority": 1.5}`:                   "priority is 1.5; it must be a whole number",
		`{"priority": "1"}`:                   `priority is "1"; it must be a whole number`,
		`{"priority": 99999999999}`:           "priority is 99999999999",
		`{"max_attempts": true}`:              "max_attempts is true",
		`{"run_at": "tomorrow"}`:              `run_at is "tomorrow"; it must be a time before the year 10000`,
		`{"run_at": 1893456000}`:              "run_at is 1893456000; it must be a time before the year 10000",
		`{"run_at": ""}`:                      `run_at is ""; it must be a time`,
		`{"delay": 90}`:                       `delay is 90; it must be a duration as in "90s"`,
		`{"delay": ""}`:                       `delay is ""; it must be a duration`,
		`{"ordering_key": ""}`:                "ordering_key must not be empty; leave it out if there is none",
		`{"max_attempts": 0}`:                 "max_attempts is 0; it must be from 1 to 32767",
		`{"delay": "an hour"}`:                `delay is "an hour"; it must be a duration`,
		`{"headers": {"a": 1}}`:               "headers must be an object of strings",
		`{"headers": {"a": "\ud800"}}`:        "headers holds a lone surrogate",
		`{"kind": "k", "payload": "` + "\x01": "payload: not valid JSON",
	} {
		if _, err := store.ParseJob([]byte(line)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: err = %v, want one that says %q", line, err, says)
		}
	}
}

// Of two due times one would be dropped, also if they are those that mean now.
func TestParseJobTakesOneDueTime(t *testing.T) {
	t.Parallel()
	for _, both := range []string{
		`"run_at": "2030-01-31T12:00:00Z", "delay": "90s"`, `"delay": "0s", "run_at": "2030-01-31T12:00:00Z"`,
		`"run_at": "0001-01-01T00:00:00Z", "delay": "90s"`,
	} {
		if _, err := store.ParseJob([]byte("{" + both + "}")); err == nil || !strings.HasPrefix(err.Error(), "run_at is given together with delay") {
			t.Errorf("%s: %v", both, err)
		}
	}
	job, err := store.ParseJob([]byte(`{"run_at": null, "delay": "90s"}`))
	if diff := cmp.Diff(store.NewJob{Delay: 90 * time.Second}, job); err != nil || diff != "" {
		t.Errorf("null beside a delay: %v (-want +got):\n%s", err, diff)
	}
}

func TestParseJobTakesNullForNone(t *testing.T) {
	t.Parallel()
	for _, key := range jobFields {
		if key == "payload" {
			continue // null is a value of JSON like any
		}
		job, err := store.ParseJob([]byte(`{"` + key + `": null}`))
		if diff := cmp.Diff(store.NewJob{}, job); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", key, err, diff)
		}
	}
}

func TestParseJobTakesEscapes(t *testing.T) {
	t.Parallel()
	job, err := store.ParseJob([]byte(`{"kind": "\ud83d\ude00 \\ud800 \/ \ufffd"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `😀 \ud800 / ` + "\ufffd"; job.Kind != want {
		t.Errorf("kind = %q, want %q", job.Kind, want)
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"kind": "k", "payload": {"a": [1, "\u00e9"]}, "headers": {"a": "b"}}`))
	f.Add([]byte(`{"kind": "\ud83d\ude00", "priority": -3, "delay": "1s"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		job, err := store.ParseJob(line)
		if err != nil {
			return
		}
		var loose map[string]json.RawMessage
		if err := json.Unmarshal(line, &loose); err != nil {
			t.Fatalf("took what is not a JSON object: %v", err)
		}
		if strings.ContainsRune(job.Kind, '\ufffd') && !strings.Contains(strings.ToLower(string(loose["kind"])), `\ufffd`) &&
			!strings.ContainsRune(string(loose["kind"]), '\ufffd') {
			t.Fatalf("mended %s to %q", loose["kind"], job.Kind)
		}
	})
}
