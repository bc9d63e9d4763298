package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Ranges are checked by SQL, for every language at once. Here is only what
// never reaches SQL as a value: what JSON or the wire can't carry.

// maxJSON is the highest payload limit that can be set: jsonb ends at 256 MiB.
const maxJSON = 200_000_000

// wire turns a NewJob into the arguments of the SQL functions.
func (j NewJob) wire() (wireJob, error) {
	w := wireJob{
		Kind: j.Kind, Queue: j.Queue, Tenant: j.Tenant, Priority: j.Priority,
		OrderingKey: optional(j.OrderingKey), DedupeKey: optional(j.DedupeKey),
		Dedupe: optional(string(j.Dedupe)), IdempotencyKey: optional(j.IdempotencyKey),
	}
	if w.Queue == "" {
		w.Queue = defaultQueue
	}
	if j.MaxAttempts != 0 {
		w.MaxAttempts = &j.MaxAttempts
	}
	if err := j.checkNames(); err != nil {
		return w, err
	}
	if err := j.checkNumbers(); err != nil {
		return w, err
	}
	if err := j.when(&w); err != nil {
		return w, err
	}
	var err error
	if w.Payload, err = encode("payload", j.Payload); err != nil {
		return w, err
	}
	w.Headers, err = encodeHeaders(j.Headers)
	return w, err
}

func (j NewJob) checkNames() error {
	return checkTexts(
		text{"kind", j.Kind}, text{"queue", j.Queue}, text{"tenant", j.Tenant},
		text{"ordering_key", j.OrderingKey}, text{"dedupe_key", j.DedupeKey},
		text{"dedupe", string(j.Dedupe)}, text{"idempotency_key", j.IdempotencyKey},
	)
}

// text is the value of a field.
type text struct{ field, value string }

// checkTexts refuses what PostgreSQL's text can't hold.
func checkTexts(texts ...text) error {
	for _, n := range texts {
		switch {
		case !utf8.ValidString(n.value):
			return refuse(n.field, "is not valid UTF-8")
		case strings.ContainsRune(n.value, 0):
			return refuse(n.field, "holds a zero character, which PostgreSQL can't store")
		}
	}
	return nil
}

// checkNumbers refuses what is not even an integer of SQL's.
func (j NewJob) checkNumbers() error {
	switch {
	case j.Priority != int(int32(j.Priority)):
		return refuse("priority", fmt.Sprintf("is %d; it must be between -9 and 9", j.Priority))
	case j.MaxAttempts != int(int32(j.MaxAttempts)):
		return refuse("max_attempts", fmt.Sprintf("is %d; it must be between 1 and 32767", j.MaxAttempts))
	}
	return nil
}

// when fills in the due time. A time that timestamptz or JSON can't carry is
// refused here, since it would fail before SQL could name the field.
func (j NewJob) when(w *wireJob) error {
	switch {
	case !j.RunAt.IsZero() && j.Delay != 0:
		return refuse("run_at", TwoDueTimes)
	case j.Delay < 0:
		return refuse("delay", fmt.Sprintf("is %s; it can't be negative", j.Delay))
	case j.Delay > 0:
		text := intervalText(j.Delay)
		w.Delay, w.DelayText = &j.Delay, &text
	case !j.RunAt.IsZero():
		utc := j.RunAt.UTC().Truncate(time.Microsecond) // what timestamptz can hold
		if y := utc.Year(); y < 1 || y > 9999 {
			return refuse("run_at", fmt.Sprintf("is in the year %d; it must be before the year 10000", y))
		}
		w.RunAt = &utc
	}
	return nil
}

// intervalText spells an interval in numbers that PostgreSQL 14 takes too: there
// each has 32 bits, which microseconds fill within the hour.
func intervalText(d time.Duration) string {
	return fmt.Sprintf("%d hours %d.%06d seconds", d/time.Hour, d%time.Hour/time.Second, d%time.Second/time.Microsecond)
}

func encode(field string, v any) (json.RawMessage, error) {
	data, err := marshal(v)
	if err != nil {
		return nil, refuse(field, "can't be encoded as JSON: "+err.Error())
	}
	if len(data) > maxJSON {
		return nil, refuse(field, fmt.Sprintf("is %d bytes long; no limit allows more than %d", len(data), maxJSON))
	}
	if problem := jsonProblem(data); problem != "" {
		return nil, refuse(field, problem)
	}
	return data, nil
}

// marshal passes JSON through and encodes the rest. A nil is {}.
func marshal(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(v) == 0 {
			return json.RawMessage("{}"), nil
		}
		return v, nil
	default:
		return json.Marshal(v)
	}
}

func encodeHeaders(h map[string]string) (json.RawMessage, error) {
	if len(h) == 0 {
		return json.RawMessage("{}"), nil
	}
	return encode("headers", h)
}

func refuse(field, message string) error {
	return &FieldError{Field: field, Message: field + " " + message}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
