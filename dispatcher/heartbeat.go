package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// maxExtend is how many leases one call renews.
const maxExtend = 1000

// heart renews leases and registers, over a connection of its own.
type heart struct {
	shift *shift
	bell  bell
	every time.Duration

	// The loop's own.
	due   time.Time     // when the next full beat is
	busy  []store.Claim // rows that somebody held for a moment
	again doubling      // when to try those again
	retry *backoff.ExponentialBackOff

	mu   sync.Mutex
	last time.Time     // when the last good beat began
	beat chan struct{} // closed by the next good beat
}

func newHeart(s *shift) *heart {
	every := s.cfg.Heartbeat
	return &heart{
		shift: s, bell: newBell(), every: every, due: time.Now().Add(every),
		again: doubling{first: 5 * time.Millisecond, most: 250 * time.Millisecond},
		retry: newBackoff(20*time.Millisecond, min(every, time.Second)),
		beat:  make(chan struct{}),
	}
}

// run beats until ctx ends. A beat that is under way then comes to its end: what
// is sent is not taken back.
func (h *heart) run(ctx context.Context) {
	timer := time.NewTimer(h.every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.bell.c:
			h.bell.answer()
			h.due = time.Now()
		}
		timer.Reset(h.turn(context.WithoutCancel(ctx)))
	}
}

// turn beats, or asks again for what was busy, and says when the next turn is.
// A beat that fails is repeated at once: the connection may just be stale, and
// leases do not wait.
func (h *heart) turn(ctx context.Context) time.Duration {
	began := time.Now()
	full := !began.Before(h.due)
	claims := h.busy
	if full {
		claims = h.shift.leases.claims()
	}
	err := h.renew(ctx, claims)
	if err == nil && full {
		err = h.register(ctx)
	}
	if err != nil {
		h.shift.trouble(ctx, "heartbeat", err)
		h.due = began
		return h.retry.NextBackOff()
	}
	h.retry.Reset()
	if full {
		h.due = began.Add(h.every)
		h.succeeded(began)
	}
	if len(h.busy) == 0 {
		h.again.reset()
		return time.Until(h.due)
	}
	return min(time.Until(h.due), h.again.next())
}

func (h *heart) succeeded(began time.Time) {
	h.shift.worked.note(LoopHeartbeat)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = began
	close(h.beat)
	h.beat = make(chan struct{})
}

// renewed waits until a beat begun after since has been good: after a lost
// connection, what is held is renewed before more is claimed.
func (h *heart) renewed(ctx context.Context, since time.Time) {
	for ctx.Err() == nil {
		h.mu.Lock()
		last, beat := h.last, h.beat
		h.mu.Unlock()
		if last.After(since) {
			return
		}
		h.bell.ring(ByCatchUp)
		select {
		case <-beat:
		case <-ctx.Done():
		}
	}
}

// renew extends the leases of claims, and notes those that are busy.
func (h *heart) renew(ctx context.Context, claims []store.Claim) error {
	h.busy = nil
	for len(claims) > 0 {
		n := min(len(claims), maxExtend)
		if err := h.extend(ctx, claims[:n]); err != nil {
			return err
		}
		claims = claims[n:]
	}
	return nil
}

func (h *heart) extend(ctx context.Context, claims []store.Claim) error {
	sent := time.Now()
	var states map[int64]store.ExtendState
	err := h.use(ctx, func(ctx context.Context, s *store.Store) (err error) {
		states, err = s.Extend(ctx, h.shift.worker, claims, h.shift.cfg.Lease)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range claims {
		state := states[c.ID]
		if state == store.ExtendBusy {
			h.busy = append(h.busy, c)
		}
		if a := h.shift.leases.extended(c, state, sent); a != nil {
			a.told(state)
		}
	}
	return nil
}

func (h *heart) register(ctx context.Context) error {
	return h.use(ctx, func(ctx context.Context, s *store.Store) error {
		_, err := s.Register(ctx, h.shift.registration())
		return err
	})
}

// told does what a heartbeat's answer asks for.
func (a *attempt) told(state store.ExtendState) {
	if state == store.ExtendLost {
		a.lose("no longer this worker's")
		return
	}
	if a.ctx.Err() == nil {
		a.cancel(ErrCancelled)
		a.tell(Event{Type: CancelAsked})
	}
}

// lose ends the context of an attempt whose claim is gone.
func (a *attempt) lose(reason string) {
	a.cancel(ErrLeaseLost)
	a.tell(Event{Type: LeaseLost, Reason: reason})
}

// use runs one call over the heartbeat's connection. It must fail early enough
// for another one to save the leases.
func (h *heart) use(ctx context.Context, fn func(context.Context, *store.Store) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout(), errNoAnswer)
	defer cancel()
	return h.shift.conns.heartbeat.use(ctx, func(conn *pgx.Conn) error {
		return fn(ctx, h.shift.store(conn))
	})
}

func (h *heart) timeout() time.Duration {
	return min(max(h.shift.cfg.Lease/6, 250*time.Millisecond), 5*time.Second)
}

var errNoAnswer = fmt.Errorf("no answer from the database in time: %w", context.DeadlineExceeded)
