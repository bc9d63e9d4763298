package producers_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// asked is a request of a producer whose transaction has committed.
type asked struct {
	key, policy string
	version     int // in the payload; unique
	answer      store.Enqueued
	begin, end  time.Time // of the commit
}

// older tells whether a's commit was over before b's began.
func (a asked) older(b asked) bool { return a.end.Before(b.begin) }

// handed is a claim of a job, as its worker saw it.
type handed struct {
	id, fence      int64
	key            string
	version        int
	sent, answered time.Time // of the claim
	reported       time.Time // when the outcome was about to be sent; zero: never
	lease          time.Time // no sooner than that does it end
}

func (h handed) over() time.Time {
	if h.reported.IsZero() || h.reported.After(h.lease) {
		return h.lease
	}
	return h.reported
}

// keyJournal is what producers and workers saw, by their own clocks.
type keyJournal struct {
	mu       sync.Mutex
	asked    []asked
	handed   []*handed
	counts   map[string]int
	problems []string
}

func (j *keyJournal) problem(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

func (j *keyJournal) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

// judge compares what was promised with what was seen.
func (j *keyJournal) judge() []string {
	requests := make(map[int]asked)
	for _, a := range j.asked {
		requests[a.version] = a
	}
	slices.SortFunc(j.handed, func(a, b *handed) int { return int(a.fence - b.fence) })
	first, ran := make(map[int64]*handed), make(map[int]int64)
	var firsts []*handed
	for _, h := range j.handed {
		switch f := first[h.id]; {
		case f == nil:
			first[h.id] = h
			firsts = append(firsts, h)
			if other := ran[h.version]; other != 0 {
				j.problem("payload %d was run by job %d and by job %d", h.version, other, h.id)
			}
			ran[h.version] = h.id
		case f.version != h.version:
			j.problem("job %d was claimed with payload %d and then with %d", h.id, f.version, h.version)
		}
		if _, known := requests[h.version]; !known {
			j.problem("job %d ran payload %d, which no one has committed", h.id, h.version)
		}
	}
	for _, a := range j.asked {
		if h := first[a.answer.ID]; h != nil && a.end.Before(h.sent) && a.answer.Outcome != store.EnqueueExisting &&
			requests[h.version].older(a) {
			j.problem("job %d (%s, %s) was claimed with payload %d, though %d had been committed before the claim",
				h.id, a.key, a.policy, h.version, a.version)
		}
		if a.policy == "one_more" && !slices.ContainsFunc(firsts, func(h *handed) bool {
			return h.key == a.key && h.answered.After(a.begin) && !requests[h.version].older(a)
		}) {
			j.problem("payload %d of %s (one_more, answered %+v) was lost", a.version, a.key, a.answer)
		}
	}
	j.judgeOverlaps()
	return j.problems
}

// judgeOverlaps sees that no two jobs of a key ran at once.
func (j *keyJournal) judgeOverlaps() {
	last := make(map[string]*handed)
	slices.SortFunc(j.handed, func(a, b *handed) int { return a.answered.Compare(b.answered) })
	for _, h := range j.handed {
		if l := last[h.key]; l != nil && l.id != h.id && l.over().After(h.answered) {
			j.problem("%s: jobs %d and %d ran at once", h.key, l.id, h.id)
		}
		if h.over().After(h.answered) {
			last[h.key] = h
		}
	}
}
