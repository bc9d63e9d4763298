package dispatcher_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

type payload struct {
	N int `json:"n"`
}

var errFailed = errors.New("it failed")

// unreadable is an error whose nil pointer can't be asked for its text.
type unreadable struct{ text string }

func (u *unreadable) Error() string { return u.text }

// discreet is an error whose form for the log can't be had.
type discreet struct{ status *int }

func (*discreet) Error() string          { return "answered with a status" }
func (d *discreet) LogValue() slog.Value { return slog.IntValue(*d.status) }

func panicHere() { panic("at the disco") }

// TestOutcomes has every way in which a handler can end, and what is then in
// the database.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler func(job dispatcher.Job[payload]) error
		state   string
		attempt int
		note    []string // all in the error or result
	}{
		{"completed", func(job dispatcher.Job[payload]) error { return job.SetResult(job.Payload) }, "completed", 1, []string{`{"n": 7}`}},
		{"failed", func(dispatcher.Job[payload]) error { return errFailed }, "live b-", 1, []string{"it failed"}},
		{"permanent", func(dispatcher.Job[payload]) error { return backoff.Permanent(errFailed) }, "dead", 1, []string{"it failed"}},
		{"retry after", func(dispatcher.Job[payload]) error { return dispatcher.RetryAfter(time.Hour, errFailed) }, "live b-", 1, []string{"it failed"}},
		{"snoozed", func(dispatcher.Job[payload]) error { return dispatcher.Snooze(time.Hour) }, "live b-", 0, []string{"snoozed for 1h"}},
		{"panic", func(dispatcher.Job[payload]) error { panicHere(); return nil }, "live b-", 1, []string{"panic: at the disco", "panicHere"}},
		{"nil panic", func(dispatcher.Job[payload]) error { panic(nil) }, "live b-", 1, []string{"panic called with nil", "outcome_test.go"}}, //nolint:govet // what it does
		{"error that panics", func(dispatcher.Job[payload]) error { var none *unreadable; return none }, "live b-", 1, []string{"nil pointer", "Error"}},
		{"error that panics when it is logged", func(dispatcher.Job[payload]) error { return &discreet{} }, "live b-", 1, []string{"answered with a status"}},
		{"goexit", func(dispatcher.Job[payload]) error { runtime.Goexit(); return nil }, "live b-", 1, []string{"Goexit", "outcome_test.go"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			d := r.dispatcher(dispatcher.Config{})
			dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error { return test.handler(job) })
			id := r.enqueue(store.NewJob{Kind: "k", Payload: payload{7}})[0]
			r.runUntilIdle(d)
			state, attempt, note := r.fate(id)
			if state != test.state || attempt != test.attempt {
				t.Errorf("%s after attempt %d, want %s after %d", state, attempt, test.state, test.attempt)
			}
			for _, part := range test.note {
				if !strings.Contains(note, part) {
					t.Errorf("%q does not hold %q", note, part)
				}
			}
		})
	}
}

// TestLastAttemptIsDead: an attempt that fails is told as failed while others
// are left, and the last one as what it makes of the job.
func TestLastAttemptIsDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log strings.Builder
	d := r.dispatcher(dispatcher.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	fails := func(context.Context, dispatcher.Job[payload]) error { return dispatcher.RetryAfter(0, errFailed) }
	dispatcher.Handle(d, "plain", fails)
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, _ pgx.Tx, job dispatcher.Job[payload]) error { return fails(ctx, job) })
	r.enqueue(store.NewJob{Kind: "plain", MaxAttempts: 2}, store.NewJob{Kind: "tx", MaxAttempts: 2, OrderingKey: "a"})
	r.runUntilIdle(d)
	for _, kind := range []string{"plain", "tx"} {
		for _, typ := range []dispatcher.EventType{dispatcher.Ended, dispatcher.Recorded} {
			for i, want := range []store.Outcome{store.Failed, store.Dead} {
				n := r.count(func(e dispatcher.Event) bool {
					return e.Kind == kind && e.Type == typ && e.Attempt == i+1 && e.Outcome == want
				})
				if n != 1 {
					t.Errorf("%d times %s: %s as %s in attempt %d, want once", n, kind, typ, want, i+1)
				}
			}
		}
	}
	if n := strings.Count(log.String(), "outcome=dead"); n != 2 {
		t.Errorf("%d errors are logged, want 2:\n%s", n, log.String())
	}
}

// TestRetryAfterTellsWhen: the database's clock counts, and the delay is the
// handler's.
func TestRetryAfterTellsWhen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error {
		return dispatcher.RetryAfter(time.Hour, errFailed)
	})
	r.enqueue(store.NewJob{Kind: "k"})
	r.runUntilIdle(d)
	in := testdb.Value[time.Duration](t, r.db, "select run_at - clock_timestamp() from lockstep.job")
	if in < 59*time.Minute || in > time.Hour {
		t.Errorf("again in %v, want an hour", in)
	}
}

// TestRetriesInOneRun: a failure with a short delay runs again, in time, with
// nobody to tell but the timer.
func TestRetriesInOneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		if job.Attempt < 3 {
			return dispatcher.RetryAfter(20*time.Millisecond, errFailed)
		}
		return nil
	})
	id := r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	r.start(d)
	r.await("completed", 1, func(e dispatcher.Event) bool {
		return e.Type == dispatcher.Recorded && e.JobID == id && e.Outcome == store.Completed
	})
	if _, attempt, _ := r.fate(id); attempt != 3 {
		t.Errorf("completed in attempt %d, want 3", attempt)
	}
}

// TestUndecodable: permanent, unless told otherwise; and no value of the
// payload is in the error.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	for _, retry := range []bool{false, true} {
		r := newRig(t)
		d := r.dispatcher(dispatcher.Config{})
		dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error { return nil })
		d.Configure("k", dispatcher.HandlerConfig{DecodeRetry: retry})
		id := r.enqueue(store.NewJob{Kind: "k", Payload: map[string]string{"n": "secret"}})[0]
		r.runUntilIdle(d)
		state, _, note := r.fate(id)
		if want := map[bool]string{false: "dead", true: "live b-"}[retry]; state != want {
			t.Errorf("DecodeRetry %t: %s, want %s", retry, state, want)
		}
		if strings.Contains(note, "secret") || !strings.Contains(note, `"n"`) {
			t.Errorf("the error should name the field and not the value: %q", note)
		}
	}
}

// TestResultThatCantBeStored completes the job nevertheless.
func TestResultThatCantBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", func(_ context.Context, job dispatcher.Job[payload]) error {
		if err := job.SetResult(func() {}); err == nil {
			t.Error("a function was encoded")
		}
		return job.SetResult("zero: \x00")
	})
	id := r.enqueue(store.NewJob{Kind: "k"})[0]
	r.runUntilIdle(d)
	state, _, note := r.fate(id)
	if state != "completed" || !strings.Contains(note, "lockstep_result_dropped") {
		t.Errorf("%s, %s", state, note)
	}
}

// TestMiddleware wraps from the outside in, and sees job and claim.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var order []string
	wrap := func(name string) dispatcher.Middleware {
		return func(next dispatcher.HandlerFunc) dispatcher.HandlerFunc {
			return func(ctx context.Context, job store.Job) error {
				claim, ok := dispatcher.ClaimOf(ctx)
				if !ok || claim != (store.Claim{ID: job.ID, Fence: job.Fence}) {
					t.Errorf("claim %v, %t of job %d, fence %d", claim, ok, job.ID, job.Fence)
				}
				if end, ok := dispatcher.LeaseEnd(ctx); !ok || time.Until(end) > 30*time.Second || time.Until(end) < 20*time.Second {
					t.Errorf("lease ends in %v, want almost 30s", time.Until(end))
				}
				order = append(order, name)
				return next(ctx, job)
			}
		}
	}
	d := r.dispatcher(dispatcher.Config{Middleware: []dispatcher.Middleware{wrap("outer"), wrap("inner")}})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error {
		order = append(order, "handler")
		return nil
	})
	r.enqueue(store.NewJob{Kind: "k"})
	r.runUntilIdle(d)
	if got := strings.Join(order, " "); got != "outer inner handler" {
		t.Errorf("ran %s", got)
	}
}

func TestOutsideAHandlerThereIsNoClaim(t *testing.T) {
	t.Parallel()
	if _, ok := dispatcher.ClaimOf(t.Context()); ok {
		t.Error("a claim out of nowhere")
	}
	if _, ok := dispatcher.LeaseEnd(t.Context()); ok {
		t.Error("a lease out of nowhere")
	}
}
