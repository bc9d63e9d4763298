package listener

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errUnanswered: a probe was not heard within ProbeTimeout. Whether it was
// lost on its way to us or could not be sent makes no difference: nobody knows
// that this connection still delivers.
var errUnanswered = errors.New("probe unanswered")

// keepProbing probes at once, and then after every silence. It returns nil
// when ctx ends, and errUnanswered when a probe is not answered.
func (s *session) keepProbing(ctx context.Context) error {
	for {
		err := s.probe(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !s.awaitSilence(ctx) {
			return nil
		}
	}
}

// awaitSilence returns true when nothing has been heard for about
// ProbeInterval, false when ctx has ended.
func (s *session) awaitSilence(ctx context.Context) bool {
	interval := s.l.cfg.ProbeInterval
	interval -= time.Duration(rand.Float64() / 4 * float64(interval))
	for {
		s.mu.Lock()
		rest := interval - time.Since(s.lastHeard)
		s.mu.Unlock()
		if rest <= 0 {
			return ctx.Err() == nil
		}
		if sleep(ctx, rest) != nil {
			return false
		}
	}
}

// probe sends a probe and waits for its answer.
func (s *session) probe(ctx context.Context) error {
	s.l.update(func(s *State) { s.Probes++ })
	answered := make(chan struct{})
	s.mu.Lock()
	s.awaited = answered
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.l.cfg.ProbeTimeout)
	defer cancel()
	sent := s.send(ctx, answered)
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-answered: // in time, only the sending was slow to return
		return nil
	default:
	}
	if sent != nil {
		return fmt.Errorf("%w: send: %w", errUnanswered, sent)
	}
	return fmt.Errorf("%w for %v", errUnanswered, s.l.cfg.ProbeTimeout)
}

// send repeats the probe until it is sent, answered by another notification,
// or out of time: the connection it goes over may be a dead one of a pool.
func (s *session) send(ctx context.Context, answered <-chan struct{}) error {
	// A statement that is cancelled costs its connection, which others may
	// need. So only time ends it, not the end of this session or of Run.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.l.cfg.ProbeTimeout)
	defer cancel()
	for {
		err := s.l.cfg.Probe(sending, "x "+s.nonce)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(s.l.cfg.ProbeTimeout / 50)
		select {
		case <-timer.C:
		case <-answered:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
