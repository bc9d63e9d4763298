package dispatcher

import (
	"context"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	// drainTimeout is how long outcomes may wait for the database at the end.
	drainTimeout = 10 * time.Second
	// laneTimeout is how long lanes may then be refused that have still to go on.
	laneTimeout = 250 * time.Millisecond
	// deregisterTimeout is for a last courtesy.
	deregisterTimeout = 2 * time.Second
)

// windDown ends the shift once claiming has ended, in the order in which one
// thing needs the other: work, outcomes, leases and signals, registration.
func (s *shift) windDown() {
	s.endSlots()
	drain, cancel := context.WithTimeout(s.writes, drainTimeout)
	defer cancel()
	s.finisher.drain(drain)
	s.endKeep()
	s.keepers.Wait() // a heartbeat registers
	s.deregister()
}

// endSlots lets handlers run for their grace, then ends their contexts, and at
// last waits for them no longer.
func (s *shift) endSlots() {
	ended := make(chan struct{})
	go func() {
		s.loops.Wait() // a claim under way may still bring jobs
		s.slots.Wait()
		close(ended)
	}()
	if s.graceful(ended) {
		return
	}
	s.endWork(ErrShutdown)
	if within(ended, s.cfg.ReturnGrace) {
		return
	}
	close(s.forced)
	<-ended
}

// graceful waits for c through the grace, or until EndGrace.
func (s *shift) graceful(c <-chan struct{}) bool {
	timer := time.NewTimer(max(s.cfg.ShutdownGrace, 0))
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	case <-s.hurry:
	}
	return false
}

// EndGrace ends the ShutdownGrace of a Run whose context has ended, or will:
// for a second signal to a process that takes its time.
func (d *Dispatcher) EndGrace() {
	if s := d.current.Load(); s != nil {
		s.hurryOnce.Do(func() { close(s.hurry) })
	}
}

// within waits for c, for so long.
func within(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

func (s *shift) deregister() {
	ctx, cancel := context.WithTimeout(s.writes, deregisterTimeout)
	defer cancel()
	err := s.heart.use(ctx, func(ctx context.Context, db *store.Store) error {
		return db.Deregister(ctx, s.worker)
	})
	if err != nil {
		s.trouble(ctx, "deregister", err)
	}
}
