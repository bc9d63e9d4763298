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

// takeable are the kinds that a slot can take over.
func (s *shift) takeable() []string {
	if len(s.plainKinds) < len(s.kinds) && s.txFree() <= 0 {
		return s.plainKinds
	}
	return s.kinds
}

// txDone notes the end of a transactional attempt.
func (s *shift) txDone() {
	s.txBusy.Add(-1)
	if s.txWanted.Swap(false) {
		s.ringAll(ByTimer)
	}
}
