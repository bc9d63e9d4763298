package dispatcher

import "sync"

// txRoom shares out the connections for transactional handlers, so that no job is
// claimed that would have to wait for one.
type txRoom struct {
	mu      sync.Mutex
	free    int             // those of no attempt, and held for no claim
	wanting map[*queue]bool // queues whose last look found none
}

// hold takes up to most connections for a look. If there are none, the queue is
// woken when some are given back. One without transactional kinds needs none.
func (r *txRoom) hold(q *queue, most int) (held int) {
	if len(q.kinds.tx) == 0 || most == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free <= 0 {
		r.wanting[q] = true
		return 0
	}
	delete(r.wanting, q)
	held = min(r.free, most)
	r.free -= held
	return held
}

// holdAll takes as many connections as lanes may be handed over, or none: also
// where another queue wants some, which handing over would never give it.
func (r *txRoom) holdAll(q *queue, n int) (held int) {
	if len(q.kinds.tx) == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	others := len(r.wanting)
	if r.wanting[q] {
		others--
	}
	if r.free < n || others > 0 {
		return 0
	}
	r.free -= n
	return n
}

// use takes the connection of an attempt, which has to be there.
func (r *txRoom) use() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free--
}

// giveBack gives connections back: of an attempt that has ended, or of a claim
// whose attempts have theirs by now.
func (r *txRoom) giveBack(n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if r.free > 0 {
		for q := range r.wanting {
			q.bell.ring(ByTimer)
		}
	}
}

// claimable is what a queue may claim.
type claimable struct {
	most         int // jobs
	want, except []string
	bounded      bool // transactional kinds were left out
	held         int  // connections for transactional handlers, to be given back after the claim
}

// ask is what a queue may claim now: transactional kinds only as far as they
// find a connection.
func (q *queue) ask(most int) claimable {
	return q.claimable(most, q.shift.tx.hold(q, most))
}

// takeable are the kinds that n slots of the queue can take over; none where that
// can't be said by kinds alone, or is counted. What is held is to be given back.
func (q *queue) takeable(n int) (kinds []string, held int) {
	if q.shift.budget.limited {
		return nil, 0
	}
	c := q.claimable(n, q.shift.tx.holdAll(q, n))
	if len(c.except) > 0 {
		return nil, c.held
	}
	return c.want, c.held
}

func (q *queue) claimable(most, held int) claimable {
	c := claimable{most: most, held: held}
	out := q.shift.withheldKinds(q)
	switch {
	case len(q.kinds.tx) == 0 || most == 0:
	case held == 0:
		c.bounded = true
		out = append(out, q.kinds.tx...)
	default:
		c.most = held
	}
	c.want, c.except = q.kinds.without(out)
	return c
}
