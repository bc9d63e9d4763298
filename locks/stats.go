package locks

import "sync/atomic"

// Counts says how contended the locks of one class are.
type Counts struct {
	Tried   uint64 // times that the database answered a try
	Refused uint64 // those of them where another transaction held the lock
}

// Stats are the counts since New, by class of lock.
type Stats struct {
	Run   Counts // each try of a WaitRun counts
	Mutex Counts
}

// Stats returns the counts up to now.
func (l *Locks) Stats() Stats {
	return Stats{Run: l.run.counts(), Mutex: l.mutex.counts()}
}

type counter struct{ tried, refused atomic.Uint64 }

func (c *counter) count(held bool) {
	c.tried.Add(1)
	if !held {
		c.refused.Add(1)
	}
}

// counts reads refused first: it can't be more than tried, read after it.
func (c *counter) counts() Counts {
	refused := c.refused.Load()
	return Counts{Tried: c.tried.Load(), Refused: refused}
}
