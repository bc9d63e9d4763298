package demo

import (
	"sync"
	"time"
)

// tracker counts what the handlers do while they do it: for the progress, the
// latency and to know when all is done. The proof does not use it.
type tracker struct {
	mu      sync.Mutex
	counts  counts
	started map[int64]time.Time // the first attempt's first line
	ended   map[int64]time.Time // for good
}

// counts are what happened so far.
type counts struct {
	attempts, retried, done, died int
}

func newTracker() *tracker {
	return &tracker{started: make(map[int64]time.Time), ended: make(map[int64]time.Time)}
}

func (t *tracker) start(job int64) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.attempts++
	if _, again := t.started[job]; !again {
		t.started[job] = now
	}
}

func (t *tracker) end(job int64, e event) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e {
	case eventDone:
		t.counts.done++
	case eventDied:
		t.counts.died++
	default:
		t.counts.retried++
		return
	}
	t.ended[job] = now
}

func (t *tracker) snapshot() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// ends tells how many of the jobs have ended for good, and when the last did.
func (t *tracker) ends(jobs []sent) (n int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, job := range jobs {
		at, ended := t.ended[job.id]
		if !ended {
			continue
		}
		n++
		if at.After(last) {
			last = at
		}
	}
	return n, last
}

// latencies are those of the jobs that were due at once and not part of a burst.
func (t *tracker) latencies(jobs []sent, keyed bool) latencies {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all latencies
	for _, job := range jobs {
		at, started := t.started[job.id]
		if started && !job.burst && job.notBefore.IsZero() && (job.lane != "") == keyed {
			all = append(all, at.Sub(job.from))
		}
	}
	return all
}
