package dispatcher_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// syncBuffer is a log that may be read while many write to it.
type syncBuffer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

type marked struct {
	Marker int `json:"marker"`
}

// TestC100NoPayloadInLogs: whatever happens to a job, neither its log lines nor
// its events hold anything of its payload, at any level.
func TestC100NoPayloadInLogs(t *testing.T) {
	t.Parallel()
	const marker = "s3cr3t"
	r := newRig(t)
	var log syncBuffer
	d := r.dispatcher(dispatcher.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))})
	ends := map[string]func() error{
		"ok": func() error { return nil }, "error": func() error { return errFailed },
		"panic": func() error { panicHere(); return nil }, "retry": func() error { return dispatcher.RetryAfter(1, errFailed) },
	}
	var jobs []store.NewJob
	for kind, end := range ends {
		dispatcher.Handle(d, kind, func(context.Context, dispatcher.Job[map[string]string]) error { return end() })
		jobs = append(jobs, store.NewJob{Kind: kind, Payload: map[string]string{"k": marker}, Headers: map[string]string{"h": marker}, MaxAttempts: 2})
	}
	dispatcher.Handle(d, "bad json", func(context.Context, dispatcher.Job[marked]) error { return nil })
	jobs = append(jobs, store.NewJob{Kind: "bad json", Payload: map[string]string{"marker": marker}})
	r.enqueue(jobs...)
	r.runUntilIdle(d)
	r.mu.Lock()
	events := fmt.Sprintf("%+v", r.events)
	r.mu.Unlock()
	if strings.Contains(log.String(), marker) || strings.Contains(events, marker) {
		t.Errorf("the payload shows:\n%s\n%s", log.String(), events)
	}
	for kind := range ends {
		if !strings.Contains(log.String(), "kind="+kind) {
			t.Errorf("nothing is logged of kind %q", kind)
		}
	}
}
