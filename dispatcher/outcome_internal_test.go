package dispatcher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/store"
)

// TestJudge: what the handler says counts first, then why its context ended.
func TestJudge(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	tests := []struct {
		err, cause error
		want       store.Outcome
	}{
		{nil, nil, store.Completed},
		{nil, ErrLeaseLost, store.Completed},
		{plain, nil, store.Failed},
		{plain, ErrTimeout, store.Failed},
		{plain, ErrCancelled, store.Cancelled},
		{plain, ErrShutdown, store.Released},
		{plain, ErrLeaseLost, store.Released},
		{fmt.Errorf("wrapped: %w", backoff.Permanent(plain)), ErrShutdown, store.Dead},
		{fmt.Errorf("wrapped: %w", RetryAfter(time.Second, plain)), ErrShutdown, store.Failed},
		{fmt.Errorf("wrapped: %w", Snooze(time.Second)), ErrCancelled, store.Snoozed},
		{&PanicError{Value: "p"}, ErrShutdown, store.Failed},
	}
	for _, test := range tests {
		if got := judge(test.err, test.cause); got.Outcome != test.want || got.reason == "" || got.err != test.err {
			t.Errorf("judge(%v, %v) = %+v, want %s", test.err, test.cause, got, test.want)
		}
	}
}

func TestOutcomeErrors(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		says string
		is   error
	}{
		{RetryAfter(time.Minute, plain), "plain", plain},
		{RetryAfter(time.Minute, nil), "retry after 1m0s", nil},
		{Snooze(time.Minute), "snoozed for 1m0s", nil},
		{&timeoutError{after: time.Second, err: plain}, "timed out after 1s: plain", plain},
		{&timeoutError{after: time.Second}, "timed out after 1s, and goes on although its context has ended", ErrTimeout},
		{&PanicError{}, "handler ended its goroutine (runtime.Goexit)", nil},
	} {
		if test.err.Error() != test.says || test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%q, want %q that is %v", test.err, test.says, test.is)
		}
	}
}

// TestGoroutineStack finds a goroutine among all others.
func TestGoroutineStack(t *testing.T) {
	t.Parallel()
	var id goroutineID
	if id.stack() != nil {
		t.Error("nobody's stack")
	}
	ready, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	go func() {
		id.set()
		waitHere(ready, release)
	}()
	<-ready
	stack := string(id.stack())
	if !strings.Contains(stack, "waitHere") || strings.Contains(stack, "TestGoroutineStack(") {
		t.Errorf("found %s", stack)
	}
}

// TestStacksOfMany: handlers that hang all together are told apart, and soon.
func TestStacksOfMany(t *testing.T) {
	t.Parallel()
	const many = 3000
	ids := make([]goroutineID, many)
	release := make(chan struct{})
	defer close(release)
	for i := range ids {
		ready := make(chan struct{})
		go func() {
			ids[i].set()
			waitHere(ready, release)
		}()
		<-ready
	}
	stacks := make(chan string, many)
	for i := range ids {
		go func() { stacks <- string(ids[i].stack()) }()
	}
	late := time.After(30 * time.Second)
	seen := make(map[string]bool)
	for range many {
		select {
		case stack := <-stacks:
			head, _, _ := strings.Cut(stack, "[")
			if seen[head] || !strings.Contains(stack, "waitHere") {
				t.Fatalf("found %q", stack)
			}
			seen[head] = true
		case <-late:
			t.Fatalf("%d of %d stacks in 30 s", len(seen), many)
		}
	}
	lastDump.mu.Lock()
	defer lastDump.mu.Unlock()
	if lastDump.asking.Load() == 0 && lastDump.section != nil {
		t.Error("the dump is kept")
	}
}

func waitHere(ready chan<- struct{}, release <-chan struct{}) {
	close(ready)
	<-release
}
