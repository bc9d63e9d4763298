package dispatcher

// txFree is how many transactional handlers find a connection. If none does,
// the queues are woken when the next one ends.
func (s *shift) txFree() int {
	if free := s.maxTx - int(s.txBusy.Load()); free > 0 {
		return free
	}
	s.txWanted.Store(true)
	return s.maxTx - int(s.txBusy.Load()) // one may have ended before it could know
}

// ask is what a queue may claim now: transactional kinds only as far as they
// find a connection. bounded says that some kinds were left out.
func (q *queue) ask(most int) (room int, want, except []string, bounded bool) {
	out := q.shift.withheldKinds(q)
	if len(q.kinds.tx) > 0 {
		free := q.shift.txFree()
		if bounded = free <= 0; bounded {
			out = append(out, q.kinds.tx...)
		} else {
			most = min(most, free)
		}
	}
	want, except = q.kinds.without(out)
	return most, want, except, bounded
}

// takeable are the kinds that a slot of the queue can take over; none where
// that can't be said by kinds alone, or is counted.
func (q *queue) takeable() []string {
	_, want, except, _ := q.ask(1)
	if len(except) > 0 || q.shift.budget.limited {
		return nil
	}
	return want
}

// txDone notes the end of a transactional attempt.
func (s *shift) txDone() {
	s.txBusy.Add(-1)
	if s.txWanted.Swap(false) {
		s.ringAll(ByTimer)
	}
}
