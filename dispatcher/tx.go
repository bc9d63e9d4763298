package dispatcher

import (
	"context"
	"errors"
	"fmt"
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

// verdict is what came of one transaction.
type verdict struct {
	outcome
	late  *call
	again bool // repeat it at once: the outcome is only for when there were too many
}

// runTx runs a transactional handler: in a transaction that holds the lane's
// run lock, again if the transaction is lost without the handler's fault.
func (a *attempt) runTx() (outcome, *call) {
	deadline := time.Now().Add(a.handler.Timeout)
	for repeats := 0; ; {
		r, state, err := a.open()
		if err != nil {
			return judge(err, causeOf(a.ctx)), nil
		}
		if state != store.ClaimRunning {
			r.rollback()
			return known(state), nil
		}
		v := r.run(deadline)
		if !v.again || repeats == maxRepeats {
			return v.outcome, v.late
		}
		repeats++
		a.tell(Event{Type: Repeated, Reason: v.reason, Err: v.err})
	}
}

// known is the outcome of an attempt that the database has an answer for
// already: after a commit whose own answer was lost, or too late.
func known(state store.ClaimState) outcome {
	switch state {
	case store.ClaimSettled:
		return outcome{Outcome: store.Completed, reason: "committed", stands: settled}
	case store.ClaimEnded:
		return outcome{Outcome: store.Completed, reason: "committed", stands: recorded}
	default:
		return outcome{reason: "no longer this worker's", stands: forfeit}
	}
}

// open begins a transaction that holds the lane's run lock, and then, in a
// new statement, looks where the claim stands: the lock may have been had only
// after somebody else was through with the job. While the database is away it
// tries again, until the attempt's context ends: with its lease, at the latest.
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
	if r.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err == nil {
		err = r.guard(ctx)
	}
	switch {
	case err == nil:
		return r, nil
	case coded(err, codeInvalidValue) && a.shift.uncheckable.CompareAndSwap(false, true):
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

// run runs the handler in the transaction, and ends the transaction. Meanwhile
// the run lock stands for the lease.
func (r *txRun) run(deadline time.Time) verdict {
	r.shift.leases.lock(r.attempt)
	defer r.shift.leases.unlock(r.attempt)
	r.attempt.tx = lent{r.tx}
	ctx, stop := r.withTimeout(deadline)
	defer stop()
	o, late := r.start(ctx).outcome()
	switch {
	case late != nil:
		r.shift.conns.tx.abandon(r.socket)
		return verdict{outcome: o, late: late}
	case o.Outcome != store.Completed:
		r.fail(o.err)
		return verdict{outcome: softened(o), again: coded(o.err, codeSerialization, codeDeadlock)}
	}
	return r.complete(ctx, o)
}

// softened does not charge a job for a server that may only be read.
func softened(o outcome) outcome {
	if o.Outcome == store.Failed && coded(o.err, codeReadOnly) {
		o.Outcome, o.reason = store.Released, "database is read-only"
	}
	return o
}

// complete records the outcome in the transaction, as its last statement, and
// commits.
func (r *txRun) complete(ctx context.Context, o outcome) verdict {
	r.shift.leases.ending(r.attempt)
	state, err := r.settle(o)
	if err != nil {
		r.fail(err)
		again := unavailable(err) || coded(err, codeSerialization, codeDeadlock)
		return verdict{outcome: judge(fmt.Errorf("record outcome: %w", err), causeOf(ctx)), again: again}
	}
	switch state {
	case store.FinishDone:
		o.stands = recorded
	case store.FinishPending:
		o.stands = settled
	default:
		r.rollback()
		return verdict{outcome: known(store.ClaimIsLost)}
	}
	return r.commit(ctx, o)
}

// settle reports the outcome in the transaction. A row that is busy is so only
// for a moment: heartbeats touch it.
func (r *txRun) settle(o outcome) (store.FinishState, error) {
	ctx, cancel := context.WithTimeoutCause(r.shift.writes, r.shift.callTimeout, errNoAnswer)
	defer cancel()
	args := store.FinishArgs{
		Worker: r.shift.worker, Reports: []store.Finish{r.finish(o)}, Lease: r.shift.cfg.Lease, SettleOnly: true,
	}
	pause := doubling{first: time.Millisecond, most: 50 * time.Millisecond}
	for {
		answers, err := r.shift.store(r.tx).Finish(ctx, args)
		if err != nil {
			return "", err
		}
		if state := answers[r.job.ID].State; state != store.FinishBusy {
			return state, nil
		}
		if err := sleep(ctx, pause.next()); err != nil {
			return "", err
		}
	}
}

// commit commits. When the answer is lost, only the database knows: the next
// transaction looks, behind the run lock, which an unfinished commit holds.
func (r *txRun) commit(ctx context.Context, o outcome) verdict {
	committing, cancel := context.WithTimeoutCause(r.shift.writes, commitTimeout, errNoAnswer)
	defer cancel()
	err := r.tx.Commit(committing)
	r.giveBack(err)
	switch {
	case err == nil:
		return verdict{outcome: o}
	case answered(err) || errors.Is(err, pgx.ErrTxCommitRollback):
		return verdict{
			outcome: judge(fmt.Errorf("commit: %w", err), causeOf(ctx)),
			again:   coded(err, codeSerialization, codeDeadlock),
		}
	default:
		// If it did commit after all, a release changes nothing.
		return verdict{outcome: outcome{Outcome: store.Released, reason: "commit unanswered", err: err}, again: true}
	}
}

// fail rolls back after an error, and gives the connection back.
func (r *txRun) fail(err error) {
	ctx, cancel := context.WithTimeout(r.shift.writes, rollbackTimeout)
	defer cancel()
	if r.tx != nil {
		_ = r.tx.Rollback(ctx) // or the connection is closed, which does it
	}
	r.giveBack(err)
}

func (r *txRun) rollback() { r.fail(nil) }

// giveBack returns the connection. While it lives, an error is the handler's or
// the statement's, and says nothing about other connections.
func (r *txRun) giveBack(err error) {
	if !r.conn.IsClosed() && !errors.Is(err, errReadOnly) {
		err = nil
	}
	r.shift.conns.tx.put(r.conn, err)
}
