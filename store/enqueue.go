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
	// ({}) goes as it is, a []byte as text in base64. Up to 1 MiB as text unless
	// the limit was set. jsonb keeps every digit of a number, but not key order or spacing.
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
	// for the transaction that enqueued the first job, as with any unique key,
	// and then does what Dedupe says.
	DedupeKey string
	// Dedupe says what becomes of this job if DedupeKey is taken; "" means
	// DedupeReject. The others need a DedupeKey.
	Dedupe Dedupe
	// IdempotencyKey makes a repeated enqueue answer with the job of the first
	// one, also when that job is over; "" means none. Up to 1000 bytes, unique
	// per tenant, kept for 7 days unless set_limits set it. The same key with
	// another request (Kind, Queue, OrderingKey, Payload, Priority, RunAt or
	// Delay) is refused: ErrKeyReused.
	IdempotencyKey string
	// Headers travel beside the payload (trace context and the like).
	Headers map[string]string
}

// Dedupe is a policy for a dedupe key that an unfinished job has already. A job
// counts as claimed from its first claim on, so also while it waits for a retry.
type Dedupe string

// The policies for a dedupe key that is taken.
const (
	// DedupeReject leaves the job as it is.
	DedupeReject Dedupe = "reject"
	// DedupeReplace gives the job the new payload and headers at the commit,
	// unless it has been claimed by then. It keeps its place and all the rest.
	DedupeReplace Dedupe = "replace"
	// DedupeOneMore is DedupeReplace, but beside a job that has been claimed it
	// adds one more, which waits for that one in its lane. Without an
	// OrderingKey, DedupeKey is the ordering key too.
	DedupeOneMore Dedupe = "one_more"
)

// EnqueueOutcome is what became of a request to enqueue a job.
type EnqueueOutcome string

// What Enqueue may answer.
const (
	// EnqueueCreated: the job is new.
	EnqueueCreated EnqueueOutcome = "created"
	// EnqueueExisting: an unfinished job has the dedupe key; it stays as it is.
	EnqueueExisting EnqueueOutcome = "existing"
	// EnqueueNoted: an unfinished job has the dedupe key and has not been
	// claimed: the commit gives it the new payload if that is so still.
	EnqueueNoted EnqueueOutcome = "noted"
	// EnqueueRepeated: the same request was made before, with this idempotency
	// key, and this is its job, whatever has become of it.
	EnqueueRepeated EnqueueOutcome = "repeated"
)

// Enqueued is the answer to an enqueue.
type Enqueued struct {
	ID      int64 // of the new job, or of the one that is there
	Created bool  // Outcome is EnqueueCreated
	Outcome EnqueueOutcome
}

const enqueueSQL = `select id, created, outcome from @schema@.enqueue(kind => $1, payload => $2::jsonb, queue => $3,
	tenant => $4, ordering_key => $5, priority => $6, run_at => $7, delay => $8, max_attempts => $9,
	dedupe_key => $10, dedupe => $11, idempotency_key => $12, headers => $13::jsonb)`

// Enqueue adds one job. A *FieldError names what was wrong with it; nothing
// is written then. ErrKeyReused if its idempotency key made another job.
func (s *Store) Enqueue(ctx context.Context, job NewJob) (Enqueued, error) {
	var e Enqueued
	w, err := job.wire()
	if err != nil {
		return e, err
	}
	args := []any{
		w.Kind, string(w.Payload), w.Queue, w.Tenant, w.OrderingKey, w.Priority,
		w.RunAt, w.Delay, w.MaxAttempts, w.DedupeKey, w.Dedupe, w.IdempotencyKey, string(w.Headers),
	}
	return e, s.row(ctx, enqueueSQL, args, []any{&e.ID, &e.Created, &e.Outcome})
}

// wireJob is a NewJob in the shape of the SQL functions' arguments; nil is
// the function's default.
type wireJob struct {
	Kind           string          `json:"kind"`
	Payload        json.RawMessage `json:"payload"`
	Queue          string          `json:"queue"`
	Tenant         string          `json:"tenant,omitempty"`
	OrderingKey    *string         `json:"ordering_key,omitempty"`
	Priority       int             `json:"priority,omitempty"`
	RunAt          *time.Time      `json:"run_at,omitempty"`
	Delay          *time.Duration  `json:"-"`
	DelayText      *string         `json:"delay,omitempty"`
	MaxAttempts    *int            `json:"max_attempts,omitempty"`
	DedupeKey      *string         `json:"dedupe_key,omitempty"`
	Dedupe         *string         `json:"dedupe,omitempty"`
	IdempotencyKey *string         `json:"idempotency_key,omitempty"`
	Headers        json.RawMessage `json:"headers"`
}
