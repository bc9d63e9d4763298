package model_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-pg/lockstep/store"
)

// begin opens a transaction.
func (w *world) begin() *session {
	s := one(w, "session", slices.DeleteFunc(slices.Clone(w.sessions), func(s *session) bool { return s.tx != nil })...)
	s.tx = &transaction{repeatable: w.percent(15, "repeatable read")}
	isolation := "read committed"
	if s.tx.repeatable {
		isolation = "repeatable read"
	}
	w.exec(s.conn, "begin isolation level "+isolation)
	w.t.Logf("%s begins, %s", s.name, isolation)
	return s
}

// Begin opens a transaction and leaves it open.
func (w *world) Begin() { w.enqueueIn(w.begin()) }

// Produce is a transaction from begin to end.
func (w *world) Produce() {
	s := w.begin()
	for range one(w, "jobs", 1, 2, 3, 4) {
		w.enqueueIn(s)
	}
	if w.mayCommit(s.tx) {
		w.commitIn(s)
	}
}

// Enqueue adds a job in an open transaction.
func (w *world) Enqueue() { w.enqueueIn(w.open(false)) }

func (w *world) enqueueIn(s *session) {
	j, created := w.draw(s.tx)
	if created && j == nil {
		return
	}
	args := store.NewJob{Kind: j.kind, Queue: j.queue, OrderingKey: j.key, Priority: j.priority, MaxAttempts: j.most, DedupeKey: j.dedupe}
	if j.at == later {
		args.Delay = hour
	}
	answer, err := store.New(s.conn).Enqueue(context.Background(), args)
	w.must("enqueue", err)
	agree(w, fmt.Sprint("enqueue of dedupe key ", j.dedupe), answer.Created, created)
	if !created {
		agree(w, "enqueue finds", answer.ID, j.id)
		return
	}
	j.id = answer.ID
	s.tx.entered = append(s.tx.entered, j)
	w.t.Logf("%s enqueues %d: %s %s/%s %s, dedupe key %q, priority %d, at most %d", s.name, j.id, j.state(), j.queue, j.key, j.kind, j.dedupe, j.priority, j.most)
}

// draw is a new job, or the one that has its dedupe key. nil, true: to enqueue
// it would be to wait for another transaction.
func (w *world) draw(tx *transaction) (j *job, created bool) {
	j = &job{
		queue: w.queue(), key: one(w, "key", "a", "b", ""), kind: one(w, "kind", "k", "k", "l"),
		most: one(w, "attempts", 2, 1, 3), priority: one(w, "priority", 0, 0, 1, -1),
		at: runs, step: w.step, ended: map[int64]ending{},
	}
	if w.percent(20, "scheduled") {
		j.at = later
	}
	if tx.repeatable || !w.percent(20, "dedupe") {
		return j, true
	}
	j.dedupe = one(w, "dedupe key", "x", "y")
	for _, own := range tx.entered {
		if own.dedupe == j.dedupe && own.queue == j.queue {
			return own, false
		}
	}
	switch holder := w.holder(j); {
	case w.dedupeInDoubt(j):
		return nil, true
	case holder != nil:
		return holder, false
	}
	return j, true
}

// dedupeInDoubt tells whether who has a job's dedupe key depends on an open
// transaction.
func (w *world) dedupeInDoubt(j *job) bool {
	if j.dedupe == "" {
		return false
	}
	if len(w.all(func(o *job) bool { return o.live() && o.locked != nil && o.sameKey(j) })) > 0 {
		return true
	}
	return slices.ContainsFunc(w.sessions, func(s *session) bool {
		return s.tx != nil && slices.ContainsFunc(s.tx.entered, func(o *job) bool { return o.sameKey(j) })
	})
}

// Commit ends a transaction.
func (w *world) Commit() {
	s := w.open(false)
	only(w.mayCommit(s.tx))
	w.commitIn(s)
}

func (w *world) commitIn(s *session) {
	w.exec(s.conn, "commit")
	w.commit(s.tx)
	s.tx = nil
	w.t.Logf("%s commits", s.name)
}

// Rollback ends a transaction without a trace.
func (w *world) Rollback() {
	s := w.open(false)
	w.exec(s.conn, "rollback")
	w.end(s.tx)
	s.tx = nil
	w.t.Logf("%s rolls back", s.name)
}

// StandInCommit has a transaction hold a lane's entry lock, as a producer does
// in its commit.
func (w *world) StandInCommit() {
	s := w.open(false)
	j := w.row(func(j *job) bool { return j.key != "" && w.lane(j).entry == nil })
	agree(w, "try_entry", w.ask(s.conn, "select lockstep.try_entry($1, '', $2)::text", j.queue, j.key), "true")
	l := w.lane(j)
	l.entry = s.tx
	s.tx.lanes = append(s.tx.lanes, l)
	w.t.Logf("%s has the entry lock of %s/%s", s.name, j.queue, j.key)
}

// LockRow has a transaction lock the row of a job.
func (w *world) LockRow() {
	s, j := w.open(true), w.row(anyJob)
	w.exec(s.conn, "select from lockstep.job where id = $1 for update", j.id)
	s.tx.lock(j)
	w.t.Logf("%s locks %d", s.name, j.id)
}

// CancelInside cancels a job in an open transaction.
func (w *world) CancelInside() {
	s, j := w.open(true), w.row(func(j *job) bool { return j.at != blocks && !j.settled })
	only(!s.tx.touches(j))
	next := w.behind(j)
	answer, effect := w.cancel(j, s.tx)
	agree(w, fmt.Sprint("cancel of ", j.id), w.ask(s.conn, "select lockstep.cancel($1)", j.id), answer)
	if answer == "cancelled" && next != nil && w.mayLeave(j, false, s.tx) {
		s.tx.lock(next)
	}
	s.tx.lock(j)
	w.atCommit(s.tx, effect)
	w.t.Logf("%s cancels %d: %s", s.name, j.id, answer)
}
