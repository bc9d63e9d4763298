package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
	"unicode/utf8"
)

// TimeForm is what a due date has to look like.
const TimeForm = "a time before the year 10000 as in 2030-01-31T12:00:00Z (RFC 3339)"

// durationForm is what a delay has to look like.
const durationForm = `a duration as in "90s" or "1h30m"`

// jobFields are the keys of a job in a file, by their names in SQL.
var jobFields = map[string]func(*NewJob, json.RawMessage) error{
	"kind":            func(j *NewJob, v json.RawMessage) error { return jsonText("kind", v, &j.Kind) },
	"payload":         func(j *NewJob, v json.RawMessage) error { j.Payload = v; return nil },
	"queue":           func(j *NewJob, v json.RawMessage) error { return jsonText("queue", v, &j.Queue) },
	"tenant":          func(j *NewJob, v json.RawMessage) error { return jsonText("tenant", v, &j.Tenant) },
	"ordering_key":    func(j *NewJob, v json.RawMessage) error { return jsonText("ordering_key", v, &j.OrderingKey) },
	"priority":        func(j *NewJob, v json.RawMessage) error { return jsonInt(v, &j.Priority) },
	"run_at":          parseRunAt,
	"delay":           parseDelay,
	"max_attempts":    parseMaxAttempts,
	"dedupe_key":      func(j *NewJob, v json.RawMessage) error { return jsonText("dedupe_key", v, &j.DedupeKey) },
	"dedupe":          func(j *NewJob, v json.RawMessage) error { return jsonText("dedupe", v, (*string)(&j.Dedupe)) },
	"idempotency_key": func(j *NewJob, v json.RawMessage) error { return jsonText("idempotency_key", v, &j.IdempotencyKey) },
	"headers":         parseHeaders,
}

// NoAttempt is what is wrong with a max_attempts of 0: in SQL it would mean the
// default.
const NoAttempt = "is 0; it must be from 1 to 32767"

// TwoDueTimes is what is wrong with a run_at that is given together with a delay,
// whatever the two are.
const TwoDueTimes = "is given together with delay; give one of them"

// EmptyText says what is wrong with a field that is given and empty. Whoever
// gives one has lost a value on the way: a job without its ordering key would run
// out of order, and a filter without its kind would mean every kind. None is
// null, or no key.
func EmptyText(field string) string {
	if field == "kind" || field == "queue" { // every job has one
		return "must not be empty"
	}
	return "must not be empty; leave it out if there is none"
}

// ParseJob reads one job as a JSON object, whose fields are the arguments of
// enqueue; delay is a duration as in "90s", run_at a time by RFC 3339, null none. Unlike
// encoding/json it takes a key only in its exact spelling and only once, and no
// text that it would have to mend. Numbers in the payload keep their digits.
//
// A *FieldError names a field whose value can't be meant; any other error says
// that this is no such object. Ranges are checked when the job is enqueued.
func ParseJob(line []byte) (NewJob, error) {
	var job NewJob
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return job, errors.New("not a JSON object")
	}
	given := make(map[string]bool) // false: as null
	for dec.More() {
		key, value, err := member(dec)
		if err != nil {
			return job, err
		}
		set, known := jobFields[key]
		_, twice := given[key]
		switch {
		case !known:
			return job, fmt.Errorf("unknown key %.100q", key)
		case twice:
			return job, fmt.Errorf("key %q appears twice", key)
		}
		given[key] = string(value) != "null"
		if err := set(&job, value); err != nil {
			return job, refuse(key, err.Error())
		}
	}
	if given["run_at"] && given["delay"] {
		return job, refuse("run_at", TwoDueTimes)
	}
	return job, end(dec)
}

func member(dec *json.Decoder) (string, json.RawMessage, error) {
	token, err := dec.Token()
	if err != nil {
		return "", nil, notJSON(err)
	}
	key, _ := token.(string)
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return "", nil, fmt.Errorf("%.100s: %w", key, notJSON(err))
	}
	return key, value, nil
}

// end reads the closing brace, after which nothing may follow.
func end(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: it ends in the middle")
	}
	return fmt.Errorf("not valid JSON: %w", err)
}

// jsonText takes no empty string: see EmptyText.
func jsonText(field string, value json.RawMessage, into *string) error {
	if problem := MendedText(value); problem != "" {
		return errors.New(problem)
	}
	var s *string
	switch {
	case json.Unmarshal(value, &s) != nil:
		return errors.New("must be a string")
	case s == nil:
		return nil
	case *s == "":
		return errors.New(EmptyText(field))
	}
	*into = *s
	return nil
}

// jsonInt takes what fits SQL's integer, in which SQL then checks the range.
func jsonInt(value json.RawMessage, into *int) error {
	var n int32
	if json.Unmarshal(value, &n) != nil {
		return fmt.Errorf("is %.40s; it must be a whole number", value)
	}
	*into = int(n)
	return nil
}

// parseMaxAttempts takes no 0, which would mean the default.
func parseMaxAttempts(job *NewJob, value json.RawMessage) error {
	err := jsonInt(value, &job.MaxAttempts)
	if err == nil && string(value) != "null" && job.MaxAttempts == 0 {
		return errors.New(NoAttempt)
	}
	return err
}

func parseRunAt(job *NewJob, value json.RawMessage) (err error) {
	return formed(value, TimeForm, func(s string) error {
		job.RunAt, err = time.Parse(time.RFC3339, s)
		return err
	})
}

func parseDelay(job *NewJob, value json.RawMessage) (err error) {
	return formed(value, durationForm, func(s string) error {
		job.Delay, err = time.ParseDuration(s)
		return err
	})
}

// formed takes a string that parse accepts; an error shows the form it wants.
func formed(value json.RawMessage, form string, parse func(string) error) error {
	if string(value) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(value, &s) != nil || parse(s) != nil {
		return fmt.Errorf("is %.40s; it must be %s", value, form)
	}
	return nil
}

func parseHeaders(job *NewJob, value json.RawMessage) error {
	if problem := MendedText(value); problem != "" {
		return errors.New(problem)
	}
	if json.Unmarshal(value, &job.Headers) != nil {
		return errors.New("must be an object of strings")
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	_, _ = dec.Token() // the brace, or null
	for seen := make(map[string]bool); dec.More(); {
		name, text, err := member(dec)
		switch {
		case err != nil:
			return err
		case seen[name]:
			return fmt.Errorf("holds %.100q twice", name)
		case string(text) == "null":
			return errors.New("must be an object of strings")
		}
		seen[name] = true
	}
	return nil
}

// escape matches every escape of a JSON string, so that a backslash that is
// itself escaped is not taken for the beginning of one.
var escape = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`)

// MendedText says what encoding/json would silently replace in the texts of a JSON
// value, or "": broken UTF-8 and halves of surrogate pairs.
func MendedText(value json.RawMessage) string {
	if !utf8.Valid(value) {
		return "is not valid UTF-8"
	}
	high := -1 // where a high surrogate ended
	for _, at := range escape.FindAllSubmatchIndex(value, -1) {
		unit := ""
		if at[2] >= 0 {
			unit = string(bytes.ToLower(value[at[2]:at[3]]))
		}
		low := unit >= "dc00" && unit <= "dfff"
		if low != (high >= 0) || low && high != at[0] {
			return "holds a lone surrogate"
		}
		high = -1
		if unit >= "d800" && unit < "dc00" {
			high = at[1]
		}
	}
	if high >= 0 {
		return "holds a lone surrogate"
	}
	return ""
}
