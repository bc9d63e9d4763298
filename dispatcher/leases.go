package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// lease is what is known of an attempt's claim, by the local monotonic clock.
type lease struct {
	// end is a moment at which the lease certainly still held: it is reckoned
	// from before the claim or the last renewal was sent.
	end time.Time
	// locked: a run lock stands for the lease, whose end then ends nothing.
	locked bool
	// ending: the outcome is on its way; the database's answer to that counts,
	// and the lease is only kept so that nobody takes the job meanwhile.
	ending bool
}

// leases are the claims to be kept: of every attempt whose outcome is not
// recorded. Of attempts at the same job only the last can be good, so there is
// one per job.
type leases struct {
	length time.Duration // of every lease
	margin time.Duration // a handler's context ends so long before its lease

	mu     sync.Mutex
	held   map[int64]*attempt // by job
	next   time.Time          // when watch looks next
	sooner chan struct{}      // has it look before that
}

func newLeases(length time.Duration) *leases {
	return &leases{length: length, margin: min(length/10, 2*time.Second), held: make(map[int64]*attempt), sooner: make(chan struct{}, 1)}
}

func (l *leases) hold(a *attempt) {
	l.mu.Lock()
	older := l.held[a.job.ID]
	l.held[a.job.ID] = a
	l.schedule(a)
	l.mu.Unlock()
	if older != nil {
		older.lose("claimed anew")
	}
}

// schedule has watch look in time for an attempt. The caller holds the lock.
func (l *leases) schedule(a *attempt) {
	if l.next.Before(a.lease.end.Add(-l.margin)) {
		return
	}
	select {
	case l.sooner <- struct{}{}:
	default:
	}
}

func (l *leases) drop(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[a.job.ID] == a {
		delete(l.held, a.job.ID)
	}
}

// end tells until when an attempt's lease holds.
func (l *leases) end(a *attempt) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.lease.end
}

// over tells whether an attempt's lease can't be relied on at a moment.
func (l *leases) over(a *attempt, now time.Time) bool {
	return !now.Before(l.end(a).Add(-l.margin))
}

// lock lets a run lock stand for the lease.
func (l *leases) lock(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.lease.locked, a.lease.ending = true, false
}

// unlock ends that.
func (l *leases) unlock(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.lease.locked = false
	l.schedule(a)
}

// ending notes that the attempt's outcome is on its way.
func (l *leases) ending(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.lease.ending = true
}

// claims are those to renew.
func (l *leases) claims() []store.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]store.Claim, 0, len(l.held))
	for _, a := range l.held {
		all = append(all, a.claim())
	}
	return all
}

// extended notes the answer to a renewal sent at sent. The attempt is returned
// if something is to be done about it.
func (l *leases) extended(c store.Claim, state store.ExtendState, sent time.Time) (concerned *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.held[c.ID]
	if a == nil || a.job.Fence != c.Fence {
		return nil
	}
	switch state {
	case store.Extended:
		a.lease.end = sent.Add(l.length)
	case store.ExtendCancelled:
		a.lease.end = sent.Add(l.length)
		return a
	case store.ExtendLost:
		delete(l.held, c.ID)
		if !a.lease.ending {
			return a
		}
	}
	return nil
}

// watch ends the contexts of attempts whose lease could not be renewed, each
// in time.
func (l *leases) watch(ctx context.Context) {
	for ctx.Err() == nil {
		gone, next := l.expire(time.Now())
		for _, a := range gone {
			a.lose("lease not renewed in time")
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.sooner:
		}
		timer.Stop()
	}
}

// expire takes out the attempts whose time is over, and says when to look next.
func (l *leases) expire(now time.Time) (gone []*attempt, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = now.Add(l.length - l.margin)
	for id, a := range l.held {
		end := a.lease.end.Add(-l.margin)
		switch {
		case a.lease.locked || a.lease.ending:
			continue
		case !now.Before(end):
			delete(l.held, id)
			gone = append(gone, a)
		case end.Before(next):
			next = end
		}
	}
	l.next = next
	return gone, next
}

// any reports whether one of these jobs is held.
func (l *leases) any(jobs []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(jobs, func(id int64) bool { return l.held[id] != nil })
}

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
