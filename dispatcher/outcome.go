package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/store"
)

// RetryAfter is the outcome of a handler that failed with err and knows when
// to try again: after d by the database's clock (0 to 366 days) instead of the
// queue's backoff. The attempt is used up; if it was the last, the job is dead.
func RetryAfter(d time.Duration, err error) error {
	return &retryAfter{d, err}
}

// Snooze is the outcome of a handler that is not ready to run: the job runs
// again after d (0 to 366 days), still at the head of its lane, and the attempt
// is not used up.
func Snooze(d time.Duration) error {
	return &snooze{after: d}
}

// SnoozeBecause is Snooze with a reason that is kept with the attempt: for what
// is not the job's fault, as a system that is down.
func SnoozeBecause(d time.Duration, err error) error {
	return &snooze{d, err}
}

type retryAfter struct {
	after time.Duration
	error
}

func (r *retryAfter) Error() string {
	if r.error == nil {
		return fmt.Sprintf("retry after %v", r.after)
	}
	return r.error.Error()
}

func (r *retryAfter) Unwrap() error { return r.error }

type snooze struct {
	after time.Duration
	error
}

func (s *snooze) Error() string {
	if s.error == nil {
		return fmt.Sprintf("snoozed for %v", s.after)
	}
	return s.error.Error()
}

func (s *snooze) Unwrap() error { return s.error }

// PanicError is the error of an attempt whose handler panicked, or ended its
// goroutine by runtime.Goexit.
type PanicError struct {
	Value any    // what recover returned; nil after Goexit
	Stack []byte // the handler's goroutine, as runtime/debug prints it
}

// Error is what was recovered, without the stack.
func (p *PanicError) Error() string {
	if p.Value == nil {
		return "handler ended its goroutine (runtime.Goexit)"
	}
	return fmt.Sprintf("panic: %v", p.Value)
}

// timeoutError is the error of an attempt that ran into its timeout.
type timeoutError struct {
	after time.Duration
	err   error  // what the handler returned, if it did
	stack []byte // where it was, if it did not
}

func (t *timeoutError) Error() string {
	if t.err == nil {
		return fmt.Sprintf("timed out after %v, and goes on although its context has ended", t.after)
	}
	return fmt.Sprintf("timed out after %v: %v", t.after, t.err)
}

func (t *timeoutError) Unwrap() []error {
	if t.err == nil {
		return []error{ErrTimeout}
	}
	return []error{ErrTimeout, t.err}
}

// outcome is what an attempt came to.
type outcome struct {
	store.Outcome
	reason string
	err    error
	delay  *time.Duration
	stands standing
}

// standing is how much of an outcome the database knows already.
type standing int

const (
	unrecorded standing = iota // to be reported
	settled                    // recorded by the handler's transaction; to be reported, so that the lane goes on
	recorded                   // nothing is left to do
	forfeit                    // the claim is lost: nothing can be done
)

// judge names the outcome of a handler that returned err. cause is why its
// context had ended by then, or nil. What the handler says explicitly counts
// before what was asked of it.
func judge(err, cause error) outcome {
	var (
		permanent *backoff.PermanentError
		retry     *retryAfter
		nap       *snooze
		crash     *PanicError
	)
	switch {
	case err == nil:
		return outcome{Outcome: store.Completed, reason: "handler returned nil"}
	case errors.As(err, &permanent):
		return outcome{Outcome: store.Dead, reason: "permanent error", err: err}
	case errors.As(err, &retry):
		return outcome{Outcome: store.Failed, reason: "handler asked for a retry", err: err, delay: &retry.after}
	case errors.As(err, &nap):
		return outcome{Outcome: store.Snoozed, reason: "handler asked for a snooze", err: err, delay: &nap.after}
	case errors.As(err, &crash):
		return outcome{Outcome: store.Failed, reason: "panic", err: err}
	case errors.Is(cause, ErrCancelled):
		return outcome{Outcome: store.Cancelled, reason: "cancel", err: err}
	case errors.Is(cause, ErrShutdown):
		return outcome{Outcome: store.Released, reason: "shutdown", err: err}
	case errors.Is(cause, ErrLeaseLost):
		return outcome{Outcome: store.Released, reason: "lease lost", err: err}
	case errors.Is(cause, ErrTimeout):
		return outcome{Outcome: store.Failed, reason: "timeout", err: err}
	default:
		return outcome{Outcome: store.Failed, reason: "handler error", err: err}
	}
}

// sound returns err, unless it panics when it is looked at, as a nil pointer of
// a type of the handler's own may: it must not take the process along later.
func sound(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = judge(err, nil)
	return err
}

// causeOf is why ctx has ended; nil if it has not.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// text is what is stored of an outcome's error, with its stack.
func (o outcome) text() string {
	if o.err == nil {
		return ""
	}
	text := o.err.Error()
	var crash *PanicError
	var late *timeoutError
	switch {
	case errors.As(o.err, &crash):
		return text + "\n\n" + string(crash.Stack)
	case errors.As(o.err, &late) && late.stack != nil:
		return text + "\n\n" + string(late.stack)
	}
	return text
}
