package dispatcher

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// attempt is one claimed job, from the claim until its outcome is recorded.
// Its lease is kept from the first moment to the last (see leases).
type attempt struct {
	shift   *shift
	queue   *queue
	handler *handler
	job     store.Job

	// ctx is the handler's, but for its timeout. cancel ends it with a cause.
	ctx    context.Context
	cancel context.CancelCauseFunc

	tx      pgx.Tx    // what a transactional handler works in
	sent    time.Time // when its claim was
	looked  time.Time // the database saw no pause over the job after this
	started time.Time

	mu     sync.Mutex
	result json.RawMessage

	lease lease // guarded by leases
}

// newAttempt takes charge of a job whose claim was sent at sent.
func (s *shift) newAttempt(q *queue, job store.Job, sent time.Time) *attempt {
	a := &attempt{shift: s, queue: q, handler: q.kinds.handler(job.Kind), job: job, sent: sent, looked: sent}
	a.lease.end = sent.Add(s.cfg.Lease)
	a.ctx, a.cancel = context.WithCancelCause(s.work)
	a.ctx = context.WithValue(a.ctx, attemptKey{}, a)
	if a.handler.transactional {
		s.tx.use()
	}
	s.open.Add(1)
	s.leases.hold(a)
	s.advance()
	return a
}

// close ends what newAttempt began, when nothing more will be reported.
func (a *attempt) close() {
	a.shift.leases.drop(a)
	a.cancel(context.Canceled)
	a.shift.open.Add(-1)
	a.shift.advance()
}

func (a *attempt) claim() store.Claim {
	return store.Claim{ID: a.job.ID, Fence: a.job.Fence}
}

func (a *attempt) keyed() bool { return a.job.OrderingKey != "" }

func (a *attempt) setResult(data json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result = data
}

// finish is the report of an outcome, as the store wants it.
func (a *attempt) finish(o outcome) store.Finish {
	f := store.Finish{Claim: a.claim(), Outcome: o.Outcome, Error: o.text(), Delay: o.delay}
	if o.Outcome == store.Completed {
		a.mu.Lock()
		defer a.mu.Unlock()
		f.Result = a.result
	}
	return f
}

// run has the handler run, and tells what came of it. A handler that has not
// returned although it should have is late.
func (a *attempt) run() (o outcome, late *call) {
	if a.handler.transactional {
		defer a.shift.tx.giveBack(1)
	}
	if a.shift.stopping() {
		return outcome{Outcome: store.Released, reason: "claimed while stopping"}, nil
	}
	if !a.handler.transactional { // which looks later, in its transaction
		if o := a.unpaused(); o != nil {
			return *o, nil
		}
	}
	if a.shift.leases.over(a, time.Now()) {
		return outcome{Outcome: store.Released, reason: "the claim's answer came when its lease was over"}, nil
	}
	a.begins()
	if a.handler.transactional {
		return a.runTx()
	}
	ctx, stop := a.withTimeout(a.started.Add(a.handler.Timeout))
	defer stop()
	return a.start(ctx).outcome()
}

func (a *attempt) begins() {
	a.started = time.Now()
	a.tell(Event{Type: Started, Took: a.started.Sub(a.sent), Waited: a.job.ClaimedAt.Sub(a.job.RunAt)})
}

// withTimeout gives the handler's context its deadline, if it has a timeout.
func (a *attempt) withTimeout(deadline time.Time) (context.Context, context.CancelFunc) {
	if a.handler.Timeout == 0 {
		return a.ctx, func() {}
	}
	return context.WithDeadlineCause(a.ctx, deadline, ErrTimeout)
}

// end tells the outcome, and reports it if anything is left to report. The
// channel brings the lane's next job, if take asks for it and there is one.
func (a *attempt) end(o outcome, take bool) <-chan *attempt {
	e := Event{Type: Ended, Outcome: o.Outcome, Reason: o.reason, Err: o.err} // no Outcome: forfeit
	if !a.started.IsZero() {
		e.Ran = time.Since(a.started)
	}
	a.tell(e)
	switch o.stands {
	case forfeit:
		a.lose(o.reason)
		a.close()
		return nothing
	case recorded:
		a.tell(Event{Type: Recorded, Outcome: o.Outcome, Reason: "with the transaction"})
		a.close()
		return nothing
	case settled:
		a.shift.leases.drop(a)
		a.tell(Event{Type: Recorded, Outcome: o.Outcome, Reason: "with the transaction"})
	}
	return a.shift.finisher.submit(a, o, take && a.keyed() && !a.shift.stopping())
}

// nothing comes from nothing.
var nothing = func() <-chan *attempt {
	closed := make(chan *attempt)
	close(closed)
	return closed
}()
