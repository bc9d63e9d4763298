package store

import (
	"context"
	"encoding/json"
	"time"
)

// NewJob is a job to enqueue. Only Kind is required.
type NewJob struct {
	// Kind says which handler runs the job. 1 to 200 bytes.
	Kind string
	// Payload is anything encoding/json can marshal; a json.RawMessage or nil
	// ({}) goes as it is. Up to 1 MiB as text unless the limit was set.
	// jsonb keeps every digit of a number, but not key order or spacing.
	Payload any
	// Queue defaults to "default". 1 to 200 bytes.
	Queue string
	// Tenant defaults to "", no tenant. Up to 200 bytes.
	Tenant string
	// OrderingKey names the entity whose jobs run one at a time, in commit
	// order; "" means none. Up to 1000 bytes.
	OrderingKey string
	// Priority is -9 to 9, higher first, default 0. The order inside a lane
	// ignores it.
	Priority int
	// RunAt is when the job falls due; zero means now. Before the year 10000.
	// Give RunAt or Delay, not both.
	RunAt time.Time
	// Delay is added to the database's clock; zero means now.
	Delay time.Duration
	// MaxAttempts is how often the job may start, 1 to 32767; zero means 12.
	MaxAttempts int
	// DedupeKey allows at most one unfinished job per (queue, tenant, key);
	// "" means none. Up to 1000 bytes. A second enqueue of the same key waits
	// for the first transaction, as with any unique key, and then answers with
	// the job that is there.
	DedupeKey string
	// Headers travel beside the payload (trace context and the like).
	Headers map[string]string
}

// Enqueued is the answer to an enqueue.
type Enqueued struct {
	ID      int64
	Created bool // false: DedupeKey found the job ID unfinished
}

const enqueueSQL = `select id, created from @schema@.enqueue(kind => $1, payload => $2::jsonb, queue => $3,
	tenant => $4, ordering_key => $5, priority => $6, run_at => $7, delay => $8, max_attempts => $9,
	dedupe_key => $10, headers => $11::jsonb)`

// Enqueue adds one job. A *FieldError names what was wrong with it; nothing
// is written then.
func (s *Store) Enqueue(ctx context.Context, job NewJob) (Enqueued, error) {
	var e Enqueued
	w, err := job.wire()
	if err != nil {
		return e, err
	}
	args := []any{
		w.Kind, string(w.Payload), w.Queue, w.Tenant, w.OrderingKey, w.Priority,
		w.RunAt, w.Delay, w.MaxAttempts, w.DedupeKey, string(w.Headers),
	}
	return e, s.row(ctx, enqueueSQL, args, []any{&e.ID, &e.Created})
}

// wireJob is a NewJob in the shape of the SQL functions' arguments; nil is
// the function's default.
type wireJob struct {
	Kind        string          `json:"kind"`
	Payload     json.RawMessage `json:"payload"`
	Queue       string          `json:"queue"`
	Tenant      string          `json:"tenant,omitempty"`
	OrderingKey *string         `json:"ordering_key,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"`
	Delay       *time.Duration  `json:"-"`
	DelayText   *string         `json:"delay,omitempty"`
	MaxAttempts *int            `json:"max_attempts,omitempty"`
	DedupeKey   *string         `json:"dedupe_key,omitempty"`
	Headers     json.RawMessage `json:"headers"`
}
