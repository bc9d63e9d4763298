package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	// maxClaim is how many jobs one call claims.
	maxClaim = 1000
	// signalGrace is how long a signal may be on its way: a look that comes between
	// a job and its signal finds no lost one.
	signalGrace = 100 * time.Millisecond
)

// lookout claims jobs for a queue's free slots. It looks when the bell rings,
// when a slot becomes free while there was more than the slots could take, and
// at the soonest of the times below.
type lookout struct {
	*queue
	why reasons // for a look that is still to come

	retryAt time.Time // after a failure: not before
	moreAt  time.Time // something was held by another transaction for a moment
	againAt time.Time // a lease may end that no signal tells of
	pollAt  time.Time
	more    doubling
	retry   *backoff.ExponentialBackOff
	portion portion // jobs to ask for

	lostAt    time.Time // when the connection failed; zero once leases were renewed since
	leaseOnly bool      // why is nothing but againAt

	unheard   int       // jobs found whose signal may yet come
	unheardAt time.Time // when it would have
}

func newLookout(q *queue) *lookout {
	l := &lookout{
		queue:   q,
		more:    doubling{first: 2 * time.Millisecond, most: 250 * time.Millisecond},
		retry:   newBackoff(20*time.Millisecond, 10*time.Second),
		portion: newPortion(maxClaim),
	}
	l.pollAt = time.Now().Add(jittered(q.shift.cfg.Poll))
	return l
}

// keep looks until ctx ends.
func (l *lookout) keep(ctx context.Context) {
	l.why.add(ByCatchUp)
	for ctx.Err() == nil {
		why, wanted := l.why.best()
		if wanted && !time.Now().Before(l.retryAt) && l.await() {
			l.renewFirst(ctx)
			l.why = 0
			l.look(ctx, why)
			continue
		}
		l.wait(ctx, wanted)
	}
}

// renewFirst has the leases that are held renewed before more is claimed, if
// the connection was away: for who knows how long, and a claim can wait.
func (l *lookout) renewFirst(ctx context.Context) {
	if !l.lostAt.IsZero() {
		l.shift.heart.renewed(ctx, l.lostAt)
		l.lostAt = time.Time{}
	}
}

// wait lets time pass until there may be something to do.
func (l *lookout) wait(ctx context.Context, wanted bool) {
	next := l.next(wanted)
	if l.unheard > 0 && l.unheardAt.Before(next) {
		next = l.unheardAt
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.bell.c:
		rung := l.bell.answer()
		if rung&(1<<ByCatchUp) != 0 {
			l.retryAt = time.Time{} // the database is back
		}
		if rung&(1<<BySignal) != 0 {
			l.unheard = 0
		}
		l.why |= rung
		l.leaseOnly = l.leaseOnly && rung == 0
	case now := <-timer.C:
		if l.unheard > 0 && !now.Before(l.unheardAt) {
			l.missed()
			return
		}
		l.timeUp(now)
	}
}

// missed counts signals as lost.
func (l *lookout) missed() {
	l.mu.Lock()
	l.lostSignals += uint64(l.unheard)
	l.mu.Unlock()
	l.shift.tell(Event{
		Type: Wakeless, Queue: l.name, Jobs: l.unheard, Reason: "nothing but time told of them: are signals arriving?",
		again: l.shift.said.again("lost signal in " + l.name),
	})
	l.unheard = 0
}

// next is when the timer must go off. A look that is wanted already waits for
// a slot, which rings, or for the end of the backoff.
func (l *lookout) next(wanted bool) time.Time {
	if wanted {
		if l.retryAt.After(time.Now()) {
			return l.retryAt
		}
		return time.Now().Add(time.Hour)
	}
	next := l.pollAt
	for _, t := range []time.Time{l.moreAt, l.againAt} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

// timeUp notes the reasons that a passed time gives.
func (l *lookout) timeUp(now time.Time) {
	passed := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	poll, more, again := passed(l.pollAt), passed(l.moreAt), passed(l.againAt)
	l.leaseOnly = again && !more && l.why == 0
	if poll {
		l.why.add(ByPoll)
	}
	if more || again {
		l.why.add(ByTimer)
	}
}

// look claims what there is room for, and starts it.
func (l *lookout) look(ctx context.Context, why Reason) {
	s := l.shift
	mark := s.progress.Load()
	c := l.ask(min(l.room(), l.portion.most))
	defer s.tx.giveBack(c.held)
	if c.most == 0 { // an outcome came to wait since there was room
		l.why.add(why)
		return
	}
	most := s.budget.take(c.most)
	if ctx.Err() != nil { // it ended while leases were renewed, or others claimed
		s.budget.spend(0)
		return
	}
	if len(c.want) == 0 || most == 0 {
		s.budget.spend(0)
		l.rest(mark, c.bounded)
		return
	}
	sent := time.Now()
	claimed, err := s.claim(store.ClaimArgs{
		Worker: s.worker, Queue: l.name, Kinds: c.want, Except: c.except, Max: most, Lease: s.cfg.Lease,
	})
	s.budget.spend(len(claimed.Jobs))
	if err != nil {
		l.failed(ctx, why, most, err)
		return
	}
	took := time.Since(sent)
	l.succeeded(took)
	l.count(why, claimed, took) // before a handler can ask
	l.leaseOnly = false
	for _, job := range claimed.Jobs {
		l.run(s.newAttempt(l.queue, job, sent))
	}
	l.plan(claimed, sent)
	l.paced.Store(claimed.More || c.bounded)
	if len(claimed.Jobs) == most || claimed.Parked > 0 {
		l.why.add(why) // there may be more, and then it was found for the same reason
	}
	l.sawNothing(mark, len(claimed.Jobs) == 0 && claimed.Parked == 0 && !claimed.More && !c.bounded)
	s.saw(claimed, sent)
	s.nudge()
}

// rest passes a look by, as there is no kind to ask for or no job left of the
// budget. What changes that rings: txRoom, Restore.
func (l *lookout) rest(mark int64, bounded bool) {
	l.pollAt = time.Now().Add(jittered(l.shift.cfg.Poll))
	l.moreAt, l.againAt = time.Time{}, time.Time{}
	l.paced.Store(bounded)
	l.sawNothing(mark, !bounded)
	l.shift.nudge()
}

// sawNothing notes whether a look, begun at mark, found nothing to do.
func (l *lookout) sawNothing(mark int64, nothing bool) {
	if !nothing {
		mark = -1
	}
	l.emptyAt.Store(mark)
}

// plan sets the times of the next look. The database's times count only by
// their distance from its clock at the look.
func (l *lookout) plan(c store.Claimed, sent time.Time) {
	l.pollAt = time.Now().Add(jittered(l.shift.cfg.Poll))
	l.againAt = sent.Add(c.LookAgain)
	if !c.LeaseEnd.IsZero() {
		end := sent.Add(max(c.LeaseEnd.Sub(c.LookedAt), 2*time.Millisecond))
		if end.Before(l.againAt) {
			l.againAt = end
		}
	}
	if c.More {
		l.moreAt = time.Now().Add(l.more.next())
		return
	}
	l.moreAt = time.Time{}
	l.more.reset()
}

// succeeded lets the next look ask for more, if there is time for that.
func (l *lookout) succeeded(took time.Duration) {
	l.retry.Reset()
	l.portion.done(took, l.shift.callTimeout)
}

// failed paces the next try. Payloads may be too large for one answer, or for
// its time: then it is fewer jobs that it asks for, else none would ever run.
func (l *lookout) failed(ctx context.Context, why Reason, asked int, err error) {
	if answered(err) || errors.Is(err, context.DeadlineExceeded) {
		l.portion.tooMuch(asked)
	}
	l.shift.trouble(ctx, "claim", err)
	now := time.Now()
	l.why.add(why)
	l.retryAt = now.Add(l.retry.NextBackOff())
	if unavailable(err) {
		l.lostAt = now
	}
}

// count keeps the look in the statistics, and tells of it.
func (l *lookout) count(why Reason, c store.Claimed, took time.Duration) {
	n, lost := len(c.Jobs), l.unsignalled(why, c.Jobs)
	l.mu.Lock()
	l.counts[why].Looks++
	l.counts[why].Jobs += uint64(n)
	l.mu.Unlock()
	l.shift.tell(Event{Type: Looked, Queue: l.name, Wake: why, Jobs: n, Took: took})
	if lost > 0 && l.unheard == 0 {
		l.unheardAt = time.Now().Add(signalGrace)
	}
	l.unheard += lost
}

// unsignalled counts the jobs that only time led to: those that a poll finds,
// and those that a look for ended leases finds although they never ran.
func (l *lookout) unsignalled(why Reason, jobs []store.Job) (n int) {
	for _, job := range jobs {
		if why == ByPoll || why == ByTimer && l.leaseOnly && job.Attempt == 1 {
			n++
		}
	}
	return n
}
