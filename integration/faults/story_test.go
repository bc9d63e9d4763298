package faults

import (
	"fmt"
	"time"
)

// Moment is a time by the witness's clock, since it began: one clock for all
// that is judged, which no fault touches. No two records have the same.
type Moment time.Duration

func (m Moment) plus(d time.Duration) Moment { return m + Moment(d) }

// never is later than everything.
const never = Moment(1<<63 - 1)

// Lane is what runs one at a time. A job without an ordering key is a lane of its
// own: its attempts are kept apart, too.
type Lane struct {
	Queue, Key string
}

func (l Lane) String() string { return l.Queue + "/" + l.Key }

// Script is the payload: what the handler does, and which job it is of.
type Script struct {
	Marker   string        `json:"marker"` // no other job has it
	Work     time.Duration `json:"work"`
	Snoozes  int           `json:"snoozes,omitempty"`  // so often, first
	Fails    int           `json:"fails,omitempty"`    // then so often
	Dies     bool          `json:"dies,omitempty"`     // then for good
	Pause    time.Duration `json:"pause,omitempty"`    // after a snooze or a failure
	Stubborn bool          `json:"stubborn,omitempty"` // goes on when its context has ended
}

// Job is a job as its producer knows it.
type Job struct {
	ID    int64 // 0: never learned
	Lane  Lane
	InTx  bool          // runs in a transaction, with an effect in it
	Delay time.Duration // until it falls due
	Script
}

// Fate is what its producer knows of a transaction.
type Fate string

const (
	open       Fate = ""            // its COMMIT was never sent
	doubtful   Fate = "in doubt"    // sent, and not answered (yet)
	committed  Fate = "committed"   // answered
	rolledBack Fate = "rolled back" // by its producer, or refused by the server
)

// Transaction is what a producer did in one transaction, or in one statement.
type Transaction struct {
	ID    string
	Fate  Fate
	Began Moment // before its first statement
	Sent  Moment // just before its COMMIT
	Ended Moment // when that was answered; never, if it is in doubt
	Jobs  []Job  // in the order of insertion
}

// Run is a handler that ran.
type Run struct {
	Marker  string
	JobID   int64
	Lane    Lane
	Fence   int64
	Attempt int
	Worker  string // which process
	InTx    bool
	Start   Moment
	End     Moment // never, if its process died first: see Record.Deaths
	Outcome Outcome
	Cause   string // why its context had ended
}

func (r Run) String() string {
	return fmt.Sprintf("job %d (%s) of %v, fence %d in %s, from %v to %v: %s %s",
		r.JobID, r.Marker, r.Lane, r.Fence, r.Worker, time.Duration(r.Start), time.Duration(r.End), r.Outcome, r.Cause)
}

// Outcome is what a handler said it came to, just before it returned.
type Outcome string

const (
	running   Outcome = ""
	completed Outcome = "completed"
	dead      Outcome = "dead"
	failed    Outcome = "failed"
	snoozed   Outcome = "snoozed"
	stopped   Outcome = "stopped" // its context had ended
)

func (o Outcome) final() bool { return o == completed || o == dead }

// Effect is what a plain handler wrote into the system outside, or tried to.
type Effect struct {
	At       Moment
	Lane     Lane
	Fence    int64
	Marker   string
	Accepted bool
}

// Strike is a fault that was struck.
type Strike struct {
	Kind     string
	Who      string // the worker or producer it was meant for; "": everybody
	From, To Moment // To: when it was over
}

// Lost is a worker's word that it lost a claim.
type Lost struct {
	At     Moment
	Worker string
	JobID  int64
	Fence  int64
	Reason string
}

// Record is all that is judged.
type Record struct {
	Lease        time.Duration
	Transactions []Transaction
	Runs         []Run
	Effects      []Effect
	Unblocked    map[Lane][]Moment // just before it was asked for
	Deaths       map[string]Moment // of processes
	Strikes      []Strike
	Losses       []Lost

	// What the database under fault has on record at the end.
	Final    []Final
	Attempts map[int64]string   // outcomes of attempts that did not complete their job, by fence
	InTx     map[string][]int64 // the fences under which transactional handlers left their effect, by marker
}

// Final is where a job ended up.
type Final struct {
	ID     int64
	Marker string
	State  string // completed, dead, cancelled; live: not over
	Fence  int64
}
