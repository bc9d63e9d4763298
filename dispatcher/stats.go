package dispatcher

import (
	"time"

	"github.com/lockstep-pg/lockstep/listener"
	"github.com/lockstep-pg/lockstep/locks"
)

// Looks count looks at a queue for one reason.
type Looks struct {
	Looks uint64
	Jobs  uint64 // claimed by them
}

// QueueStats is how it stands with one queue here.
type QueueStats struct {
	Concurrency int
	Busy        int // slots in use
	Stuck       int // of these, by handlers that go on after their context ended
	Unrecorded  int // outcomes on their way into the database

	Looks map[Reason]Looks
	// LostSignals counts jobs that only time led to: found by the fallback
	// poll, or as never run by a look for ended leases. Zero as long as signals
	// arrive.
	LostSignals uint64
}

// Stats is a snapshot. Counters count from the beginning of the last Run.
type Stats struct {
	Queues   map[string]QueueStats
	Held     int            // claims whose leases are kept
	Locks    locks.Stats    // how contended run locks are
	Listener listener.State // Connected, or what to do about it

	// Worked is when each loop last had what it asked of the database; one that
	// has not yet is not in it.
	Worked map[Loop]time.Time
}

// Stats tells how the last Run stands, or how it ended; the zero Stats before
// the first. It asks nobody, and is cheap.
func (d *Dispatcher) Stats() Stats {
	s := d.current.Load()
	if s == nil {
		return Stats{}
	}
	stats := Stats{
		Queues: make(map[string]QueueStats, len(s.queues)),
		Held:   s.leases.count(), Locks: s.locks.Stats(), Listener: s.listener.State(), Worked: s.worked.all(),
	}
	for _, q := range s.queues {
		stats.Queues[q.name] = q.stats()
	}
	return stats
}

func (q *queue) stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := QueueStats{
		Concurrency: q.concurrency, Busy: q.busy, Stuck: q.stuck, Unrecorded: q.waiting,
		Looks: make(map[Reason]Looks, reasonCount), LostSignals: q.lostSignals,
	}
	for why, looks := range q.counts {
		stats.Looks[Reason(why)] = looks
	}
	return stats
}
