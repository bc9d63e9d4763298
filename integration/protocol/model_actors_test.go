package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// actor is one session of a random run.
type actor struct {
	*journal
	conn   *pgx.Conn
	rand   *rand.Rand
	worker store.WorkerID
	ctx    context.Context
	lease  time.Duration
	calm   bool // completes all that it claims
}

var (
	errRollback = errors.New("rolled back on purpose")
	modelQueues = []string{"skips", "blocks"}
)

func (a *actor) percent(n int) bool { return a.rand.IntN(100) < n }

func (a *actor) queue() string { return modelQueues[a.rand.IntN(len(modelQueues))] }

// newJob draws a job; keyed allows it a dedupe key.
func (a *actor) newJob(keyed bool) store.NewJob {
	job := store.NewJob{Kind: "k", Queue: a.queue(), MaxAttempts: 1 + a.rand.IntN(4), Payload: json.RawMessage(`{"n": "x"}`)}
	if a.percent(75) {
		job.OrderingKey = strconv.Itoa(a.rand.IntN(6))
	}
	if a.percent(25) {
		job.Tenant = "t"
	}
	if a.percent(15) {
		job.Delay = time.Duration(a.rand.IntN(300)) * time.Millisecond
	}
	if keyed && a.percent(20) {
		job.DedupeKey = strconv.Itoa(a.rand.IntN(5))
		job.Dedupe = []store.Dedupe{store.DedupeReject, store.DedupeReplace, store.DedupeOneMore}[a.rand.IntN(3)]
	}
	return job
}

// produce runs one producer's transaction.
func (a *actor) produce() error {
	options := pgx.TxOptions{}
	if a.percent(10) {
		options.IsoLevel = pgx.RepeatableRead
	}
	var jobs map[int64]*fact
	err := pgx.BeginTxFunc(a.ctx, a.conn, options, func(tx pgx.Tx) (err error) {
		if jobs, err = a.enqueueSome(tx); err == nil && a.percent(5) {
			return errRollback
		}
		return err
	})
	if errors.Is(err, errRollback) || options.IsoLevel != "" && code(err) == "40001" {
		a.count("rolled back")
		return nil
	}
	if err == nil {
		a.committed(jobs)
		a.count("committed")
	}
	return err
}

// enqueueSome adds one to four jobs, and some more that are rolled back. One of
// its calls may have dedupe keys: two that take keys in opposite orders deadlock,
// as with any unique key.
func (a *actor) enqueueSome(tx pgx.Tx) (map[int64]*fact, error) {
	var text string
	if err := tx.QueryRow(a.ctx, "select pg_current_xact_id()::text").Scan(&text); err != nil {
		return nil, err
	}
	xid, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, err
	}
	added := make(map[int64]*fact)
	calls := 1 + a.rand.IntN(4)
	keyed := a.rand.IntN(calls)
	for i := range calls {
		if a.percent(10) {
			err := pgx.BeginFunc(a.ctx, tx, func(savepoint pgx.Tx) error {
				return errors.Join(a.enqueue(savepoint, xid, i <= keyed, map[int64]*fact{}), errRollback)
			})
			if errors.Is(err, errRollback) && err.Error() != errRollback.Error() {
				return nil, err
			}
		}
		if err := a.enqueue(tx, xid, i == keyed, added); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// enqueue adds a job, or a few in one call.
func (a *actor) enqueue(tx pgx.Tx, xid uint64, keyed bool, added map[int64]*fact) error {
	jobs := []store.NewJob{a.newJob(keyed)}
	for a.percent(30) {
		jobs = append(jobs, a.newJob(keyed))
	}
	var (
		answers []store.Enqueued
		err     error
	)
	if len(jobs) > 1 {
		answers, err = store.New(tx).EnqueueMany(a.ctx, jobs)
	} else {
		answers = make([]store.Enqueued, 1)
		answers[0], err = store.New(tx).Enqueue(a.ctx, jobs[0])
	}
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if answer.Created {
			added[answer.ID] = &fact{lane: laneOf(jobs[i].Queue, jobs[i].Tenant, jobs[i].OrderingKey), xid: xid, scheduled: jobs[i].Delay > 0}
		} else if answer.Outcome == store.EnqueueNoted {
			a.count("noted: " + string(jobs[i].Dedupe))
		}
	}
	return nil
}

// claim takes a batch.
func (a *actor) claim(queue string) ([]*life, error) {
	sent := time.Now()
	claimed, err := store.New(a.conn).Claim(a.ctx, store.ClaimArgs{
		Worker: a.worker, Queue: queue, Kinds: []string{"k"}, Max: 1 + a.rand.IntN(8), Lease: a.lease,
	})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	lives := make([]*life, len(claimed.Jobs))
	for i, job := range claimed.Jobs {
		lives[i] = a.begin(job, sent, a.lease)
		a.count("claimed")
	}
	return lives, nil
}

// work claims a batch and sees it through.
func (a *actor) work() error {
	lives, err := a.claim(a.queue())
	switch {
	case err != nil || len(lives) == 0:
		return err
	case a.calm:
		return a.report(lives)
	case a.percent(8):
		a.count("transactional")
		return a.workInTransaction(lives)
	case a.percent(4):
		a.count("abandoned")
		return nil
	case a.percent(15):
		if err := a.extend(lives); err != nil {
			return err
		}
	}
	return a.report(lives)
}

// extend renews the leases of claims.
func (a *actor) extend(lives []*life) error {
	claims := make([]store.Claim, len(lives))
	for i, l := range lives {
		claims[i] = claimOf(l.job)
	}
	sent := time.Now()
	answers, err := store.New(a.conn).Extend(a.ctx, a.worker, claims, a.lease)
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	for _, l := range lives {
		state := answers[l.job.ID]
		a.count("extend: " + string(state))
		switch state {
		case store.Extended, store.ExtendCancelled:
			l.lease = sent.Add(a.lease)
		case store.ExtendLost:
			l.lost = time.Now().Before(l.lease)
		}
	}
	return nil
}

// workInTransaction finishes the first job as a transactional handler, which
// sometimes enqueues another one, and reports the others.
func (a *actor) workInTransaction(lives []*life) error {
	job := lives[0].job
	var (
		answers map[int64]store.Finished
		added   map[int64]*fact
		ended   time.Time
	)
	err := pgx.BeginFunc(a.ctx, a.conn, func(tx pgx.Tx) error {
		held, err := store.New(tx).HoldLane(a.ctx, claimOf(job))
		if err != nil || !held {
			return errors.Join(err, errRollback)
		}
		if added, err = a.enqueueSome(tx); err != nil {
			return err
		}
		answers, err = store.New(tx).Finish(a.ctx, store.FinishArgs{
			Worker: a.worker, Lease: a.lease, SettleOnly: true,
			Reports: []store.Finish{{Claim: claimOf(job), Outcome: store.Completed}},
		})
		if state := answers[job.ID].State; err == nil && state != store.FinishPending && state != store.FinishDone {
			a.count("transactional: " + string(state))
			return errRollback
		}
		ended = time.Now() // from the commit on the lane may move on
		return err
	})
	switch {
	case err == nil:
		a.committed(added)
		lives[0].end, lives[0].recorded = ended, true
		if answers[job.ID].State == store.FinishDone {
			lives = lives[1:]
		}
	case errors.Is(err, store.ErrClaimLost), errors.Is(err, errRollback):
		a.count("transactional: rolled back")
	default:
		return fmt.Errorf("transactional: %w", err)
	}
	return a.report(lives)
}
