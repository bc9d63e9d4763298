package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	// sweepLimit is how many lanes one go looks at.
	sweepLimit = 1000
	// sweepEvery is how often everything is swept, whatever was signalled.
	sweepEvery = 30 * time.Second
	// sweepPause lets others at the database between two goes.
	sweepPause = 20 * time.Millisecond
	// unparkLimit is how many jobs one go returns.
	unparkLimit = 1000
	// parkedOnly asks for jobs that a resume has left parked; no queue has this
	// name.
	parkedOnly = "\x00"
)

// sweeper repairs lanes without a head, in queues for which a signal asks, and
// everywhere from time to time; and it returns jobs that a resume has left parked.
type sweeper struct {
	shift *shift
	bell  bell
	every time.Duration // sweepEvery, but for tests

	mu      sync.Mutex
	asked   map[string]bool // queues to sweep; "" is all
	pending int             // asked for, and not done yet
}

func newSweeper(s *shift) *sweeper {
	return &sweeper{shift: s, bell: newBell(), every: sweepEvery, asked: map[string]bool{"": true}}
}

// ask has a queue swept.
func (w *sweeper) ask(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[queue] = true
	w.bell.nudge()
}

// askAll has everything swept.
func (w *sweeper) askAll() { w.ask("") }

// take hands over what was asked for.
func (w *sweeper) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = make(map[string]bool)
	w.pending = len(asked)
	return asked
}

// done reports whether nothing that was asked for is left to do.
func (w *sweeper) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)+w.pending == 0
}

// run sweeps until ctx ends. Where it is refused, or the database fails, it asks
// again itself, a little later each time; after a failure as soon as somebody
// else asks, since the database may be back. The time of the full sweep comes
// all the same: a queue may be refused for as long as a transaction stays open.
func (w *sweeper) run(ctx context.Context) {
	again := doubling{first: time.Millisecond, most: 250 * time.Millisecond}
	retry := newBackoff(20*time.Millisecond, 10*time.Second)
	full := time.Now().Add(jittered(w.every))
	for ctx.Err() == nil {
		if !time.Now().Before(full) {
			w.askAll()
			full = time.Now().Add(jittered(w.every))
		}
		refused, err := w.sweepAsked(ctx)
		switch {
		case err != nil:
			w.shift.trouble(ctx, "sweep", err)
			w.rest(ctx, retry.NextBackOff())
		case refused:
			_ = sleep(ctx, again.next())
		default:
			again.reset()
			retry.Reset()
			w.shift.nudge()
			w.rest(ctx, time.Until(full))
		}
	}
}

// rest waits for d, or until somebody asks.
func (w *sweeper) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.bell.c:
	case <-timer.C:
	}
}

// sweepAsked sweeps what was asked for. What is refused or fails stays asked for.
func (w *sweeper) sweepAsked(ctx context.Context) (refused bool, err error) {
	for queue := range w.take() {
		left, sweepErr := 0, err
		if err == nil {
			left, sweepErr = w.sweep(ctx, queue)
		}
		w.mu.Lock()
		w.pending--
		if left > 0 || sweepErr != nil {
			w.asked[queue] = true
		}
		w.mu.Unlock()
		refused, err = refused || left > 0, sweepErr
	}
	return refused, err
}

// sweep makes one pass over the lanes of a queue, "" for all, and counts the
// lanes that were refused.
func (w *sweeper) sweep(ctx context.Context, queue string) (refused int, err error) {
	if queue == parkedOnly {
		return w.unpark(ctx)
	}
	var cursor []string
	for {
		var swept store.Swept
		err := w.shift.control(LoopSweep, func(ctx context.Context, db *store.Store) (err error) {
			swept, err = db.Sweep(ctx, sweepLimit, queue, cursor)
			return err
		})
		if err != nil {
			return refused, err
		}
		refused += swept.Refused
		if swept.Placed+swept.Promoted+swept.Unparked > 0 {
			w.shift.advance()
			w.shift.ringAll(ByTimer)
		}
		if !swept.More || sleep(ctx, sweepPause) != nil {
			return refused, nil
		}
		cursor = swept.Cursor
	}
}

// unpark returns the jobs that are parked though no pause covers them, and tells
// whether some were refused.
func (w *sweeper) unpark(ctx context.Context) (refused int, err error) {
	for {
		var u store.Unparked
		err := w.shift.control(LoopSweep, func(ctx context.Context, db *store.Store) (err error) {
			u, err = db.Unpark(ctx, unparkLimit)
			return err
		})
		if err != nil {
			return 0, err
		}
		if u.Returned > 0 {
			w.shift.advance()
			w.shift.ringAll(ByTimer)
		}
		switch {
		case !u.More:
			return 0, nil
		case u.Returned == 0:
			return 1, nil
		case sleep(ctx, sweepPause) != nil:
			return 0, nil
		}
	}
}
