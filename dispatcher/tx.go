package dispatcher

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// maxRepeats is how often a transactional handler is run again, within one
// attempt, because its transaction failed to serialize, deadlocked, or was lost
// on the way to its commit.
const maxRepeats = 3

// txRun is one transaction for a transactional handler.
type txRun struct {
	*attempt
	conn   *pgx.Conn
	socket net.Conn
	tx     pgx.Tx
}

// runTx runs a transactional handler: in a transaction that holds the lane's
// run lock, again if the transaction is lost without the handler's fault. After
// a commit without an answer, only the database knows what became of it. The
// timeout is for all runs together: it does not count the wait for the first.
func (a *attempt) runTx() (outcome, *call) {
	var (
		v        verdict
		deadline time.Time
	)
	for repeats := 0; ; repeats++ {
		r, state, err := a.open()
		switch {
		case err != nil:
			return judge(err, causeOf(a.ctx)), nil
		case state != store.ClaimRunning:
			r.rollback()
			return known(state, v.unanswered), nil
		case repeats > maxRepeats:
			r.rollback()
			return v.outcome, nil
		}
		if o := a.unpausedIn(r.tx); o != nil {
			r.fail(o.err)
			return *o, nil
		}
		if repeats == 0 {
			deadline = time.Now().Add(a.handler.Timeout)
		}
		v = r.run(deadline)
		if !v.again || repeats == maxRepeats && !v.unanswered {
			return v.outcome, v.late
		}
		a.tell(Event{Type: Repeated, Reason: v.reason, Err: v.err})
	}
}

// known is the outcome of an attempt whose claim does not stand any more:
// because our commit, whose answer was lost, took place; or because we are too
// late.
func known(state store.ClaimState, asked bool) outcome {
	switch {
	case asked && state == store.ClaimSettled:
		return outcome{Outcome: store.Completed, reason: "committed", stands: settled}
	case asked && state == store.ClaimEnded:
		return outcome{Outcome: store.Completed, reason: "committed", stands: recorded}
	default:
		return outcome{reason: "no longer this worker's", stands: forfeit}
	}
}

// open begins a transaction that holds the lane's run lock, and then, in a
// new statement, looks where the claim stands: the lock may have been had only
// after somebody else was through with the job. While the database is away it
// tries again, until the attempt's context ends: with its lease at the latest,
// unless a run came as far as to record its outcome. Then only the database knows
// what became of the claim, and is asked when it is back, however late: the
// context ends only by a cancel or with a shutdown's grace.
func (a *attempt) open() (r *txRun, state store.ClaimState, err error) {
	retry := newBackoff(20*time.Millisecond, 2*time.Second)
	for {
		r, err = a.begin()
		if err == nil {
			state, err = r.lock()
			if err == nil {
				return r, state, nil
			}
			r.fail(err)
		}
		if a.ctx.Err() != nil || !unavailable(err) {
			return nil, "", err
		}
		a.shift.trouble(a.ctx, "begin", err)
		_ = sleep(a.ctx, retry.NextBackOff())
	}
}

// begin begins a transaction on a connection of the handlers' own.
func (a *attempt) begin() (*txRun, error) {
	ctx, cancel := context.WithTimeoutCause(a.ctx, a.shift.callTimeout, errNoAnswer)
	defer cancel()
	conn, err := a.shift.conns.tx.take(ctx)
	if err != nil {
		return nil, err
	}
	r := &txRun{attempt: a, conn: conn, socket: conn.PgConn().Conn()}
	check := !a.shift.uncheckable.Load()
	if r.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err == nil {
		err = r.guard(ctx, check)
	}
	switch {
	case err == nil:
		return r, nil
	case check && coded(err, codeInvalidValue):
		a.shift.uncheckable.Store(true)
		r.fail(err)
		return a.begin()
	default:
		r.fail(err)
		return nil, err
	}
}

// lock takes the run lock, and looks where the claim stands.
func (r *txRun) lock() (store.ClaimState, error) {
	s, job := r.shift, r.job
	for {
		held, err := s.locks.WaitRun(r.ctx, r.tx, job.Queue, job.Tenant, job.OrderingKey, job.ID, time.Now().Add(s.callTimeout))
		if err != nil {
			return "", err
		}
		if held {
			break
		}
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.shift.callTimeout, errNoAnswer)
	defer cancel()
	return s.store(r.tx).ClaimState(ctx, s.worker, r.claim())
}
