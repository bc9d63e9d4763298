package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// HealthConfig says what to look at.
type HealthConfig struct {
	// Dispatcher is what is asked how it is. Required.
	Dispatcher *dispatcher.Dispatcher

	// Lease is the dispatcher's: one whose last heartbeat is longer ago is not
	// ready. Zero: 30 s.
	Lease time.Duration

	// Database tells whether the database answers, and whether its schema is
	// the one this program needs. Asked at most once a second. Nil: nobody is.
	Database func(ctx context.Context) error

	// NotifyQueue tells how full the server's queue of notifications is, and
	// which transactions are open: store.Store.NotifyQueue. Asked with Database.
	// Nil: nobody is.
	NotifyQueue func(ctx context.Context) (store.NotifyQueue, error)

	// Circuits are the states of push targets, by name. Nil: none.
	Circuits func() map[string]string

	// Note is said with every answer of Ready, as what is not meant for
	// production. "": nothing.
	Note string
}

// Health answers probes.
type Health struct {
	config   HealthConfig
	stopping atomic.Bool

	mu      sync.Mutex
	askedAt time.Time
	answer  error
	queue   store.NotifyQueue
}

// NewHealth returns a Health.
func NewHealth(c HealthConfig) *Health {
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	if c.Database == nil {
		c.Database = func(context.Context) error { return nil }
	}
	if c.Circuits == nil {
		c.Circuits = func() map[string]string { return nil }
	}
	return &Health{config: c}
}

// Stop makes Ready say no from now on: the process is about to end.
func (h *Health) Stop() { h.stopping.Store(true) }

// Alive answers 200 as long as the process answers at all: a database that is
// away is no reason to end it.
func (h *Health) Alive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
}

// Readiness is what Ready answers, as JSON.
type Readiness struct {
	Ready    bool               `json:"ready"`
	Problems []string           `json:"problems,omitempty"` // why it is not, or not wholly
	Note     string             `json:"note,omitempty"`
	Listener Listening          `json:"listener"`
	LastWork map[string]float64 `json:"seconds_since_last_success"` // by loop
	Circuits map[string]string  `json:"circuits,omitempty"`
	Server   Server             `json:"server"`
}

// Server is what other sessions do to everyone.
type Server struct {
	// NotifyQueue is how full the queue of notifications is, 0 to 1. When it is
	// full, no job can be enqueued, in any database of the server.
	NotifyQueue float64 `json:"notify_queue_usage"`
	// Oldest is the longest open transaction, if it is older than a minute: it
	// keeps what was deleted from being cleaned up, and, if it listens, the
	// queue of notifications from being emptied.
	Oldest *Transaction `json:"oldest_transaction,omitempty"`
}

// Transaction is a session with an open transaction.
type Transaction struct {
	PID         int     `json:"pid"`
	Database    string  `json:"database"`
	Role        string  `json:"role"`
	Application string  `json:"application"`
	State       string  `json:"state"`
	Seconds     float64 `json:"seconds"`
}

// Listening is the state of the connection that hears signals.
type Listening struct {
	Mode  string `json:"mode"` // connected, or why jobs are found late: connecting, stale, poll-only
	Error string `json:"error,omitempty"`
}

// Ready answers 200 while the dispatcher does its work, 503 if it does not: it
// is stopping, the database does not answer or has another schema, or no
// heartbeat got through for a lease. That no signals are heard, or that a target
// is down, is said but changes nothing: work goes on.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	stats := h.config.Dispatcher.Stats()
	answer := Readiness{
		Ready: true, Note: h.config.Note, Circuits: h.config.Circuits(),
		Listener: Listening{Mode: stats.Listener.Mode.String()}, LastWork: make(map[string]float64),
	}
	if answer.Listener.Mode != "connected" {
		answer.Listener.Error = stats.Listener.LastError
		answer.Problems = append(answer.Problems, "signals are not heard: jobs are found by polling")
	}
	for loop, at := range stats.Worked {
		answer.LastWork[string(loop)] = time.Since(at).Seconds()
	}
	_ = h.database(r.Context()) // failures tells of it
	answer.Server = h.server()
	if answer.Server.NotifyQueue > notifyQueueHigh {
		answer.Problems = append(answer.Problems, "the server's queue of notifications fills up: end the transaction that keeps it, likely the oldest one that listens")
	}
	for _, problem := range h.failures(r.Context(), stats.Worked[dispatcher.LoopHeartbeat]) {
		answer.Ready = false
		answer.Problems = append(answer.Problems, problem)
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// failures are what makes the process unfit for work.
func (h *Health) failures(ctx context.Context, heartbeat time.Time) (all []string) {
	if h.stopping.Load() {
		all = append(all, "stopping")
	}
	if err := h.database(ctx); err != nil {
		all = append(all, "database: "+err.Error())
	}
	switch {
	case heartbeat.IsZero():
		all = append(all, "the dispatcher has not started")
	case time.Since(heartbeat) > h.config.Lease:
		all = append(all, "the last heartbeat was longer ago than a lease")
	}
	return all
}

// database asks at most once a second, so that probes cost nothing.
func (h *Health) database(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.askedAt) < time.Second {
		return h.answer
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	h.answer = h.config.Database(ctx)
	if h.answer == nil && h.config.NotifyQueue != nil {
		h.queue, h.answer = h.config.NotifyQueue(ctx)
	}
	h.askedAt = time.Now()
	return h.answer
}

const (
	// notifyQueueHigh is a use of the queue of notifications that is no chance.
	notifyQueueHigh = 0.1
	// longTransaction is an age that is worth telling.
	longTransaction = time.Minute
)

// server is what the last look at the database told of other sessions.
func (h *Health) server() Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Server{NotifyQueue: h.queue.Usage}
	if len(h.queue.Open) > 0 && h.queue.Open[0].Age > longTransaction {
		o := h.queue.Open[0]
		s.Oldest = &Transaction{o.PID, o.Database, o.Role, o.Application, o.State, o.Age.Seconds()}
	}
	return s
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}
