package store

import (
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// defaultQueue is where a job goes that names no queue.
const defaultQueue = "default"

// Job is a claimed job, as the worker that claimed it sees it.
type Job struct {
	ID          int64           `json:"id"`
	Fence       int64           `json:"fence"` // new at every claim; only grows
	Queue       string          `json:"queue"`
	Kind        string          `json:"kind"`
	Tenant      string          `json:"tenant"`       // "" = no tenant
	OrderingKey string          `json:"ordering_key"` // "" = no key
	Priority    int             `json:"priority"`     // -9 to 9, higher first
	Attempt     int             `json:"attempt"`      // this attempt, from 1
	MaxAttempts int             `json:"max_attempts"`
	Payload     json.RawMessage `json:"payload"`
	Headers     json.RawMessage `json:"headers"` // a JSON object of strings
	CreatedAt   time.Time       `json:"created_at"`
	RunAt       time.Time       `json:"run_at"`
	ClaimedAt   time.Time       `json:"claimed_at"` // all times: the database's clock
}

// Claim names one claimed job of one worker. Every write of a worker is
// fenced by it: it succeeds only while (id, fence, worker) stands in the row.
type Claim struct {
	ID    int64
	Fence int64
}

// WorkerID is unique per process start.
type WorkerID = pgtype.UUID

// NewWorkerID draws a random (version 4, RFC 9562) id.
func NewWorkerID() WorkerID {
	id := WorkerID{Valid: true}
	_, _ = rand.Read(id.Bytes[:]) // never fails: see crypto/rand
	id.Bytes[6] = id.Bytes[6]&0x0f | 0x40
	id.Bytes[8] = id.Bytes[8]&0x3f | 0x80
	return id
}
