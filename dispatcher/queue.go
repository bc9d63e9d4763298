package dispatcher

import (
	"sync"
	"sync/atomic"
)

// queue is one queue's slots. Its lookout claims jobs for those that are free.
type queue struct {
	shift       *shift
	name        string
	concurrency int
	kinds       *kinds
	bell        bell

	// emptyAt is the shift's progress before a look that found nothing to do;
	// -1 if the last one found something.
	emptyAt atomic.Int64
	// paced: the lookout looks again by itself, in its own time, or when it is
	// given a connection.
	paced atomic.Bool

	mu      sync.Mutex
	busy    int  // slots that run a job or wait for its lane's next
	stuck   int  // of these, slots whose handler should have returned
	waiting int  // outcomes that the database does not know yet
	hungry  bool // the lookout waits for a slot

	counts      [reasonCount]Looks
	lostSignals uint64
}

func newQueue(s *shift, name string, c Queue) *queue {
	q := &queue{shift: s, name: name, concurrency: c.Concurrency, kinds: s.kinds, bell: newBell()}
	if len(c.Kinds) > 0 {
		q.kinds = newKinds(c.Kinds, s.handlers)
	}
	q.emptyAt.Store(-1)
	return q
}

// maxWaiting bounds the outcomes that wait for the database, in multiples of
// the concurrency: enough that claims and flushes overlap, few enough that a
// database that takes no outcomes soon gets no claims.
const maxWaiting = 2

// room is how many jobs may be claimed now.
func (q *queue) room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.roomLocked()
}

func (q *queue) roomLocked() int {
	slots := q.concurrency - q.busy
	return max(0, min(slots, (1+maxWaiting)*q.concurrency-q.busy-q.waiting))
}

// await tells whether there is room; if not, the bell rings when there is.
func (q *queue) await() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hungry = q.roomLocked() == 0
	return !q.hungry
}

// fed wakes a lookout that waits for room. The caller holds the lock.
func (q *queue) fed() {
	if q.hungry && q.roomLocked() > 0 {
		q.hungry = false
		q.bell.nudge()
	}
}

// run runs an attempt in a slot, and what its lane hands over after it.
func (q *queue) run(a *attempt) {
	q.mu.Lock()
	q.busy++
	q.mu.Unlock()
	q.shift.slots.Go(func() {
		for a != nil {
			a = q.runOne(a)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.busy--
		q.fed()
	})
}

// runOne runs an attempt and reports its outcome. It returns the lane's next
// job, if that was claimed along with the report.
func (q *queue) runOne(a *attempt) (next *attempt) {
	o, late := a.run()
	answer := a.end(o, late == nil)
	if late == nil {
		return <-answer
	}
	late.linger()
	return nil
}

func (q *queue) countWaiting(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting += n
	q.fed()
}

func (q *queue) countStuck(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stuck += n
}
