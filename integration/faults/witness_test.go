package faults

import (
	"sync"
	"time"
)

// Witness keeps what happened, in the order in which it was told, and the
// fenced store into which plain handlers write. Its methods with two arguments
// are what other processes call: whoever calls goes on only when it has answered.
type Witness struct {
	began time.Time

	mu      sync.Mutex
	last    Moment
	record  Record
	index   map[string]int // of transactions, by ID
	fences  map[Lane]int64 // the greatest that has written
	ends    map[string]map[Outcome]int
	pending int           // jobs committed that have not ended for good
	started chan struct{} // closed by the next start
}

func newWitness(lease time.Duration) *Witness {
	return &Witness{
		began: time.Now(),
		record: Record{
			Lease: lease, Unblocked: map[Lane][]Moment{}, Deaths: map[string]Moment{},
		},
		index: map[string]int{}, fences: map[Lane]int64{}, ends: map[string]map[Outcome]int{},
		started: make(chan struct{}),
	}
}

// now is a moment that no other record has. The caller holds the lock.
func (w *Witness) now() Moment {
	w.last = max(Moment(time.Since(w.began)), w.last+1)
	return w.last
}

// moment is the time.
func (w *Witness) moment() Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

// Begin notes that a transaction begins, and answers how many jobs are pending.
func (w *Witness) Begin(id string, pending *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index[id] = len(w.record.Transactions)
	w.record.Transactions = append(w.record.Transactions, Transaction{ID: id, Began: w.now(), Ended: never})
	*pending = w.pending
	return nil
}

// Committing is what a producer is about to commit.
type Committing struct {
	ID   string
	Jobs []Job
}

// Commit notes that COMMIT is sent next: from here on the transaction is in doubt.
func (w *Witness) Commit(c Committing, _ *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.record.Transactions[w.index[c.ID]]
	t.Jobs, t.Fate, t.Sent = c.Jobs, doubtful, w.now()
	return nil
}

// Settled is what came of a transaction.
type Settled struct {
	ID    string
	Fate  Fate
	JobID int64 // of a statement that stood for itself
}

// Settle notes it.
func (w *Witness) Settle(s Settled, _ *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.record.Transactions[w.index[s.ID]]
	t.Fate = s.Fate
	if s.Fate == doubtful {
		return nil
	}
	t.Ended = w.now()
	if s.JobID != 0 {
		t.Jobs[0].ID = s.JobID
	}
	if s.Fate == committed {
		for _, job := range t.Jobs {
			if !w.ended(job.Marker) {
				w.pending++
			}
		}
	}
	return nil
}

func (w *Witness) ended(marker string) bool {
	return w.ends[marker][completed]+w.ends[marker][dead] > 0
}

// Started is the answer to Start.
type Started struct {
	Run     int             // which to tell of
	Earlier map[Outcome]int // what earlier runs of the job came to
}

// Start notes that a handler starts.
func (w *Witness) Start(r Run, answer *Started) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Start, r.End, r.Outcome = w.now(), never, running
	answer.Run = len(w.record.Runs)
	w.record.Runs = append(w.record.Runs, r)
	answer.Earlier = map[Outcome]int{}
	for outcome, n := range w.ends[r.Marker] {
		answer.Earlier[outcome] = n
	}
	close(w.started)
	w.started = make(chan struct{})
	return nil
}

// Write writes an effect, if no later claim of the lane has written yet.
func (w *Witness) Write(run int, accepted *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.record.Runs[run]
	*accepted = r.Fence >= w.fences[r.Lane]
	if *accepted {
		w.fences[r.Lane] = r.Fence
	}
	w.record.Effects = append(w.record.Effects, Effect{w.now(), r.Lane, r.Fence, r.Marker, *accepted})
	return nil
}

// Ending is how a run ends.
type Ending struct {
	Run     int
	Outcome Outcome
	Cause   string
}

// End notes that a handler is about to return.
func (w *Witness) End(e Ending, _ *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.record.Runs[e.Run]
	r.End, r.Outcome, r.Cause = w.now(), e.Outcome, e.Cause
	if e.Outcome.final() && !w.ended(r.Marker) && w.knownCommitted(r.Marker) {
		w.pending--
	}
	if w.ends[r.Marker] == nil {
		w.ends[r.Marker] = map[Outcome]int{}
	}
	w.ends[r.Marker][e.Outcome]++
	return nil
}

// knownCommitted tells whether a job was counted as pending.
func (w *Witness) knownCommitted(marker string) bool {
	i, ok := w.index[transactionOf(marker)]
	return ok && w.record.Transactions[i].Fate == committed
}

// Lose notes that a worker lost a claim.
func (w *Witness) Lose(l Lost, _ *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.At = w.now()
	w.record.Losses = append(w.record.Losses, l)
	return nil
}

// unblock notes that a lane is let go on.
func (w *Witness) unblock(lane Lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Unblocked[lane] = append(w.record.Unblocked[lane], w.now())
}

// died notes the end of a process.
func (w *Witness) died(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Deaths[name] = w.now()
}

// struck notes a fault that is over.
func (w *Witness) struck(s Strike) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Strikes = append(w.record.Strikes, s)
}

// progress is how many jobs are still to end, and how many runs there were.
func (w *Witness) progress() (pending, runs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending, len(w.record.Runs)
}

// next is closed by the next start of a handler.
func (w *Witness) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

// testimony is the record, when nobody has anything to add.
func (w *Witness) testimony() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}
