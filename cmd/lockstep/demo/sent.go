package demo

import (
	"sync"
	"time"
)

// sent is a job whose transaction was committed, as its producer knows it.
type sent struct {
	id        int64
	lane      string // tenant and ordering key; "" is no key
	tx        string // pg_current_xact_id()
	place     int    // among the jobs of its transaction, in the order of insertion
	plan      plan
	ledger    bool      // runs in a transaction, with an effect in it
	notBefore time.Time // of a scheduled job: by the database's clock; else zero
	burst     bool      // enqueued in bulk: left out of the latency

	// The commit took place between these: from just before it was sent until
	// it was answered; or, once the server has told it, at exactly this time.
	from, to time.Time
}

// sentList collects what the producers have committed.
type sentList struct {
	mu           sync.Mutex
	jobs         []sent
	transactions int
	rolledBack   int // transactions
	savepoints   int // rolled back
}

func (l *sentList) commit(jobs []sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, jobs...)
	l.transactions++
}

func (l *sentList) rollback() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolledBack++
}

func (l *sentList) rollbackSavepoint() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.savepoints++
}

func (l *sentList) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}
