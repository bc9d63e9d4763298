package handler

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxResult  = 64 << 10 // bytes of an answer that are kept as the result
	maxFailure = 2 << 10  // and as the error
)

// answer is what is kept of a target's answer.
type answer struct {
	status   int
	text     string // its first bytes
	result   any    // what to store of it if the job is completed
	delay    time.Duration
	hasDelay bool
	token    int64 // the fencing token that it names
}

// AnswerError is an attempt that failed by an answer of its target.
type AnswerError struct {
	Target string // its URL, without the query
	Status int
	Text   string // the first 2 KiB of the answer

	note string
}

// Error is the status and the beginning of the answer.
func (e *AnswerError) Error() string {
	text := e.brief()
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

func (e *AnswerError) brief() string {
	text := fmt.Sprintf("push to %s: answered %d %s", e.Target, e.Status, http.StatusText(e.Status))
	if e.note != "" {
		text += ", " + e.note
	}
	return strings.TrimRight(text, " ")
}

// LogValue leaves the answer out of logs: it may repeat the payload.
func (e *AnswerError) LogValue() slog.Value { return slog.StringValue(e.brief()) }

// read takes what is needed of an answer, and no more: its end may never come.
// An answer that breaks off has its status all the same, which is what counts.
func (p *Push) read(r *http.Response) answer {
	a := answer{status: r.StatusCode}
	if a.status == http.StatusSwitchingProtocols {
		return a // what follows is no answer, and no context ends the wait for it
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxResult+1))
	a.text = excerpt(body)
	a.result = resultOf(body, err)
	a.delay, a.hasDelay = retryAfter(r.Header, time.Now())
	a.token = tokenOf(r.Header, body)
	return a
}

// excerpt is the beginning of an answer as text that can be stored.
func excerpt(body []byte) string {
	cut := body[:min(len(body), maxFailure)]
	for len(cut) < len(body) && len(cut) > maxFailure-utf8.UTFMax && !utf8.RuneStart(body[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(cut), "\uFFFD"))
}

// resultOf is the result of a job whose target answered so: its JSON, else its
// text, else a note of why there is none.
func resultOf(body []byte, err error) any {
	switch {
	case len(body) > maxResult:
		return map[string]string{"note": fmt.Sprintf("the answer was dropped: it is longer than %d bytes", maxResult)}
	case err != nil:
		return map[string]string{"note": "the answer was dropped: it broke off: " + err.Error()}
	case len(body) == 0:
		return nil
	case json.Valid(body) && utf8.Valid(body):
		return json.RawMessage(body)
	default:
		text := strings.ToValidUTF8(string(body), "\uFFFD")
		return strings.ReplaceAll(text, "\x00", "\uFFFD") // which PostgreSQL can't hold
	}
}

// tokenOf is the fencing token that an answer names, in the header of the push
// or as "fencing_token" in a JSON object; 0 if none.
func tokenOf(h http.Header, body []byte) int64 {
	if n, err := strconv.ParseInt(h.Get("Lockstep-Fencing-Token"), 10, 64); err == nil {
		return n
	}
	var named struct {
		Token int64 `json:"fencing_token"`
	}
	_ = json.Unmarshal(body, &named) // not JSON: no token
	return named.Token
}
