package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// finisher records outcomes by set, without any delay of its own: while one
// flush is under way, the next gathers. It never gives an outcome up; when the
// database fails, outcomes wait here, and hold up further claims by their
// number (queue.room).
type finisher struct {
	shift   *shift
	flushes int // at most so many at a time

	mu       sync.Mutex
	waiting  []*report // in the order they came
	inFlight int
	sending  int // reports in the flushes under way
	failing  bool
	portion  portion // reports in a flush
	retry    *backoff.ExponentialBackOff
	retryAt  time.Time   // while failing: when to try again
	timer    *time.Timer // starts flushes for what waits for a time
	ended    bool
	work     sync.WaitGroup
}

func newFinisher(s *shift, flushes int) *finisher {
	f := &finisher{shift: s, flushes: flushes, portion: newPortion(maxReports), retry: newBackoff(20*time.Millisecond, 10*time.Second)}
	f.timer = time.AfterFunc(time.Hour, f.kick)
	f.timer.Stop() // until there is something to wait for
	return f
}

// submit takes charge of an attempt's outcome. A slot that wants the lane's
// next job gets it through the channel, or nil: one value, once the report was
// sent for the first time.
func (f *finisher) submit(a *attempt, o outcome, take bool) <-chan *attempt {
	r := &report{attempt: a, Finish: a.finish(o), recorded: o.stands == settled}
	if !r.recorded {
		a.shift.leases.ending(a)
		a.queue.countWaiting(+1)
	}
	answer := make(chan *attempt, 1)
	f.mu.Lock()
	if take && !f.failing {
		r.taker = answer
	} else {
		answer <- nil
	}
	f.waiting = append(f.waiting, r)
	f.mu.Unlock()
	f.kick()
	return answer
}

// kick starts the flushes that there is reason and room for.
func (f *finisher) kick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.ended && f.inFlight < f.flushes {
		b := f.next(time.Now())
		if len(b.reports) == 0 {
			return
		}
		f.inFlight++
		f.sending += len(b.reports)
		f.work.Go(func() {
			again := f.flush(b)
			f.mu.Lock()
			f.inFlight--
			f.sending -= len(b.reports)
			f.waiting = append(f.waiting, again...)
			f.mu.Unlock()
			f.shift.nudge()
			f.kick()
		})
	}
}

// next takes out what can go now in one flush. If that is nothing, the timer is
// set to when something can. The caller holds the lock.
func (f *finisher) next(now time.Time) (b batch) {
	b.most = f.portion.most
	soonest := f.retryAt
	if !now.Before(f.retryAt) {
		soonest = f.gather(&b, now)
	}
	if len(b.reports) == 0 && soonest.After(now) {
		f.timer.Reset(soonest.Sub(now))
	}
	return b
}

// gather moves reports from those that wait into b. It tells when the first of
// those that are not to be sent yet may go; zero if there is none.
func (f *finisher) gather(b *batch, now time.Time) (soonest time.Time) {
	left := f.waiting[:0]
	for _, r := range f.waiting {
		early := r.at.After(now)
		if early && (soonest.IsZero() || r.at.Before(soonest)) {
			soonest = r.at
		}
		if early || !b.add(r) {
			left = append(left, r)
		}
	}
	clear(f.waiting[len(left):])
	f.waiting = left
	return soonest
}

// unrecorded reports whether there are outcomes that the database does not know
// yet, or may not.
func (f *finisher) unrecorded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sending > 0 || slices.ContainsFunc(f.waiting, func(r *report) bool { return !r.recorded })
}

// open reports whether there is anything left to report.
func (f *finisher) open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sending+len(f.waiting) > 0
}

// hurry tries at once what waits for the database to come back.
func (f *finisher) hurry() {
	f.mu.Lock()
	f.retryAt = time.Time{}
	f.mu.Unlock()
	f.kick()
}

// drain waits until all outcomes are recorded, or ctx ends, and then ends the
// finisher. Those that are left are told, one by one: their jobs run again when
// their leases end. A lane that has still to go on has a moment for it; then it
// is left to others.
func (f *finisher) drain(ctx context.Context) {
	f.hurry()
	for f.unrecorded() && f.shift.changed(ctx) == nil {
	}
	moment, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	for f.open() && f.shift.changed(moment) == nil {
	}
	f.mu.Lock()
	f.ended = true
	f.timer.Stop()
	f.mu.Unlock()
	f.work.Wait()
	for _, r := range f.waiting {
		if !r.recorded {
			r.attempt.tell(Event{Type: Unrecorded, Outcome: r.Outcome, Reason: "the dispatcher had to end first"})
		}
		r.close()
	}
}
