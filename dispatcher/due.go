package dispatcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/store"
)

// dueLimit is how many jobs one pass lets run.
const dueLimit = 200

// due lets jobs run that have fallen due, lets lanes go on whose finish was left
// half-way, by whomever, and steps replays.
type due struct {
	shift   *shift
	bell    bell
	emptyAt atomic.Int64 // the shift's progress before a pass that found nothing to do; -1: it did

	mu   sync.Mutex
	at   time.Time // the next due time known; zero: none
	told bool      // a signal told of it: it may be a lease's end as well

	notBefore time.Time // the loop's own: while lanes are refused, or the database fails
	again     doubling
	retry     *backoff.ExponentialBackOff
}

func newDue(s *shift) *due {
	d := &due{
		shift: s, bell: newBell(),
		again: doubling{first: time.Millisecond, most: 250 * time.Millisecond},
		retry: newBackoff(20*time.Millisecond, 10*time.Second),
	}
	d.emptyAt.Store(-1)
	return d
}

// expect makes sure of a pass at a time.
func (d *due) expect(at time.Time) { d.expected(at, false) }

// signalled is expect for a time that a signal told of.
func (d *due) signalled(at time.Time) { d.expected(at, true) }

func (d *due) expected(at time.Time, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = d.told || told
	if d.at.IsZero() || at.Before(d.at) {
		d.at = at
		d.bell.nudge()
	}
}

// run makes a pass at every due time, when the bell rings, and after the time
// that others may have been dead by then.
func (d *due) run(ctx context.Context) {
	next := time.Now()
	for {
		timer := time.NewTimer(time.Until(d.soonest(next)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.bell.c:
			rung := d.bell.answer()
			if rung != 0 {
				next = time.Now()
			}
			if rung&(1<<ByCatchUp) != 0 {
				d.notBefore = time.Time{} // the database is back
			}
			timer.Stop()
			continue
		case <-timer.C:
		}
		next = time.Now().Add(jittered(min(d.shift.cfg.Poll, d.shift.cfg.Lease)))
		d.pass(ctx)
	}
}

// soonest is when to make the next pass.
func (d *due) soonest(next time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && d.at.Before(next) {
		next = d.at
	}
	if next.Before(d.notBefore) {
		return d.notBefore
	}
	return next
}

// pass makes one pass, and sets the time of the next.
func (d *due) pass(ctx context.Context) {
	s := d.shift
	mark, told := s.progress.Load(), d.reached()
	sent := time.Now()
	var moved store.Moved
	err := s.control(LoopDue, func(ctx context.Context, db *store.Store) (err error) {
		moved, err = db.Due(ctx, dueLimit)
		return err
	})
	if err != nil {
		s.trouble(ctx, "due", err)
		d.notBefore = time.Now().Add(d.retry.NextBackOff())
		d.expected(d.notBefore, told)
		return
	}
	d.retry.Reset()
	later := time.Time{}
	if !moved.DueAt.IsZero() {
		later = sent.Add(max(moved.DueAt.Sub(moved.LookedAt), time.Millisecond))
		d.expect(later)
	}
	d.conclude(moved, later, mark, told)
}

// reached takes out a due time that has come, and whether a signal told of it.
func (d *due) reached() (told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || d.at.After(time.Now()) {
		return false
	}
	told, d.told, d.at = d.told, false, time.Time{}
	return told
}

// conclude passes on what a pass did: jobs that may run now, and lanes that
// went on, are claimed at once, and what is left is tried again at once. What was
// refused does not hold up what falls due later.
func (d *due) conclude(m store.Moved, later time.Time, mark int64, told bool) {
	s := d.shift
	d.notBefore = time.Time{}
	if m.Due+m.Retired+m.Replayed > 0 || told {
		s.ringAll(ByTimer)
	}
	switch {
	case m.Replayed > 0 && m.Due+m.Retired+m.Remaining == 0: // the next step has its time
		d.again.reset()
		d.emptyAt.Store(-1)
		s.advance()
	case m.Due+m.Retired > 0:
		d.again.reset()
		d.emptyAt.Store(-1)
		d.expect(time.Now())
		s.advance()
	case m.Remaining > 0:
		d.emptyAt.Store(-1)
		d.notBefore = time.Now().Add(d.again.next())
		if !later.IsZero() && later.Before(d.notBefore) {
			d.notBefore = later
		}
		d.expect(d.notBefore)
	default:
		d.again.reset()
		d.emptyAt.Store(mark)
	}
	s.nudge()
}
