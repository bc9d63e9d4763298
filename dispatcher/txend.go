package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// verdict is what came of one transaction.
type verdict struct {
	outcome
	late  *call
	again bool // repeat it at once: the outcome is only for when there were too many

	unanswered bool // only the database knows whether it is committed
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
	if r.conn.PgConn().TxStatus() == 'I' {
		r.giveBack(errTxEnded)
		return verdict{outcome: judge(errTxEnded, causeOf(ctx))}
	}
	r.shift.leases.ending(r.attempt)
	state, err := r.settle(o)
	if err != nil {
		r.fail(err)
		again := unavailable(err) || coded(err, codeSerialization, codeDeadlock)
		if coded(err, codeAborted) {
			err = fmt.Errorf("%w: %w", errTxFailed, err)
		}
		return verdict{outcome: judge(fmt.Errorf("record outcome: %w", err), causeOf(ctx)), again: again}
	}
	switch state {
	case store.FinishDone:
		o.stands = recorded
	case store.FinishPending:
		o.stands = settled
	default:
		r.rollback()
		return verdict{outcome: known(store.ClaimIsLost, false)}
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
		o = outcome{Outcome: store.Released, reason: "commit unanswered", err: err}
		return verdict{outcome: o, again: true, unanswered: true}
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
