package dispatcher

import "context"

// advance notes that something happened which may give other loops something
// to do: jobs were claimed, ended, fell due.
func (s *shift) advance() {
	s.progress.Add(1)
	s.nudge()
}

// nudge wakes whoever waits for a change.
func (s *shift) nudge() {
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// changed waits for a change. One goroutine at a time may wait.
func (s *shift) changed(ctx context.Context) error {
	select {
	case <-s.change:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitIdle waits until there is nothing to do; false if ctx ends first.
func (s *shift) awaitIdle(ctx context.Context) (idle bool) {
	for !s.idle() {
		if s.changed(ctx) != nil {
			return false
		}
	}
	return true
}

// idle reports whether there is nothing to do: no attempt is open, and since
// the last thing that happened, every look there is has found nothing. Looks
// that are missing are asked for.
func (s *shift) idle() bool {
	mark := s.progress.Load()
	if s.open.Load() > 0 || !s.sweeper.done() {
		return false
	}
	if s.due.emptyAt.Load() != mark {
		s.due.bell.ring(ByTimer)
		return false
	}
	idle := true
	for _, q := range s.queues {
		if q.emptyAt.Load() != mark {
			if !q.paced.Load() {
				q.bell.ring(ByTimer)
			}
			idle = false
		}
	}
	return idle && s.progress.Load() == mark && s.open.Load() == 0
}
