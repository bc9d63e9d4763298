package model_test

import (
	"context"
	"fmt"

	"github.com/lockstep-pg/lockstep/store"
)

// HoldLane begins a transactional handler: it takes the lane's run lock in an
// open transaction, if its claim stands.
func (w *world) HoldLane() {
	s, c := w.open(true), w.someClaim(!w.percent(20, "stale"))
	only(!s.tx.touches(c.job))
	answer := w.holdLane(s.tx, c)
	agree(w, fmt.Sprintf("hold_lane of %d", c.id), w.ask(s.conn, "select lockstep.hold_lane($1, $2)::text", c.id, c.fence), answer)
	w.t.Logf("%s holds the lane of %d, fence %d: %s", s.name, c.id, c.fence, answer)
	if answer == "LS003" {
		w.exec(s.conn, "rollback")
		w.end(s.tx)
		s.tx = nil
	}
}

func (m *model) holdLane(tx *transaction, c claim) string {
	switch {
	case !c.live():
		return "LS003"
	case m.runLock(c.job) != nil && m.runLock(c.job) != tx:
		return "false"
	case c.job.fence != c.fence || c.job.worker == 0 || c.settled:
		return "LS003"
	case c.key == "":
		m.runs[c.job] = tx
		tx.keyless = append(tx.keyless, c.job)
	default:
		m.lane(c.job).run = tx
		tx.lanes = append(tx.lanes, m.lane(c.job))
	}
	return "true"
}

// Settle completes the job of a transactional handler inside its transaction.
func (w *world) Settle() {
	s := w.open(true)
	c := one(w, "claim", w.held(s.tx)...)
	got, err := store.New(s.conn).Finish(context.Background(), store.FinishArgs{
		Worker: w.workers[c.worker-1], Lease: hour, SettleOnly: true,
		Reports: []store.Finish{{Claim: store.Claim{ID: c.id, Fence: c.fence}, Outcome: store.Completed}},
	})
	w.must("finish", err)
	answer, effect := "pending", func() { w.settle(c.job, "completed") }
	if c.key == "" {
		answer, effect = "done", func() { w.exit(c.job, "completed") }
	}
	agree(w, fmt.Sprintf("finish of %d in its transaction", c.id), string(got[c.id].State), answer)
	s.tx.lock(c.job)
	w.atCommit(s.tx, effect)
	w.t.Logf("%s completes %d: %s", s.name, c.id, answer)
}

// held are the claims whose run lock a transaction has, and whose rows are free.
func (m *model) held(tx *transaction) []claim {
	var found []claim
	for _, c := range m.claims {
		if c.stands() && !c.settled && c.locked == nil && m.runLock(c.job) == tx {
			found = append(found, c)
		}
	}
	return found
}
