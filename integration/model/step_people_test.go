package model_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-pg/lockstep/store"
)

// laneName is how SQL names a lane.
type laneName struct{ queue, key string }

// someLane draws a lane, mostly that of a job for which is holds.
func (w *world) someLane(is func(*job) bool) (*lane, laneName) {
	j := w.mostly(is)
	only(j.key != "")
	return w.lane(j), laneName{j.queue, j.key}
}

// on does to a job what an operator's function does.
func (w *world) on(j *job, function, answer string) {
	agree(w, fmt.Sprint(function, " of ", j.id), w.ask(w.conn, "select lockstep."+function+"($1)", j.id), answer)
	w.t.Logf("%s of %d: %s", function, j.id, answer)
}

// Cancel ends a job, or asks its worker to stop.
func (w *world) Cancel() {
	j := w.mostly((*job).live)
	answer, effect := w.cancel(j, nil)
	w.on(j, "cancel", answer)
	effect()
}

// Replay gives a dead job a new budget.
func (w *world) Replay() {
	j := w.mostly(func(j *job) bool { return j.letter })
	only(!j.letter || j.live() || !w.dedupeInDoubt(j) && (j.key == "" || w.lane(j).entry == nil))
	w.on(j, "replay", w.replay(j))
}

// Discard forgets a dead letter.
func (w *world) Discard() {
	j := w.mostly(func(j *job) bool { return j.letter })
	w.on(j, "discard", w.discard(j))
}

// Unblock lets a blocked lane go on.
func (w *world) Unblock() {
	l, name := w.someLane(func(j *job) bool { return j.at == blocks })
	answer := w.unblock(l)
	agree(w, "unblock_lane", w.ask(w.conn, "select lockstep.unblock_lane($1, '', $2)", name.queue, name.key), answer)
	w.t.Logf("unblock_lane of %v: %s", name, answer)
}

// SkipHead makes a lane's head a dead letter.
func (w *world) SkipHead() {
	l, name := w.someLane((*job).head)
	answer := w.skipHead(l)
	agree(w, "skip_head", w.ask(w.conn, "select lockstep.skip_head($1, '', $2)", name.queue, name.key), answer)
	w.t.Logf("skip_head of %v: %s", name, answer)
}

// SetPolicy changes what dead heads do.
func (w *world) SetPolicy() {
	queue := w.queue()
	policy := one(w, "policy", "block", "skip")
	left := w.setPolicy(queue, policy)
	agree(w, "set_queue", w.ask(w.conn, "select lockstep.set_queue($1, on_dead => $2)::text", queue, policy), fmt.Sprint(left))
	w.t.Logf("the dead of %s %s", queue, policy)
}

// Delete deletes a row by hand.
func (w *world) Delete() {
	j := w.row(func(j *job) bool { return j.at != blocks && !j.settled })
	w.exec(w.conn, "delete from lockstep.job where id = $1", j.id)
	w.deleteByHand(j)
	w.t.Logf("%d is deleted by hand", j.id)
}

// FallsDue brings a due time about.
func (w *world) FallsDue() {
	j := w.row(func(j *job) bool { return (j.at == later || j.at == aside) && j.due == 0 })
	w.dues++
	j.due = w.dues
	w.exec(w.conn, "update lockstep.job set run_at = timestamptz '2000-01-01' + make_interval(secs => $2) where id = $1", j.id, j.due)
	w.t.Logf("%d falls due", j.id)
}

// Due is what a dispatcher does about it.
func (w *world) Due() {
	got, err := store.New(w.conn).Due(context.Background(), 200)
	w.must("due", err)
	due, retired := w.due()
	agree(w, "due: fallen due", got.Due, due)
	agree(w, "due: retired", got.Retired, retired)
	w.t.Logf("due: %d fell due, %d lanes went on", due, retired)
}

// Sweep is what a dispatcher does about lanes without a head.
func (w *world) Sweep() {
	got, err := store.New(w.conn).Sweep(context.Background(), 1000, "", nil)
	w.must("sweep", err)
	promoted, refused := w.sweep()
	agree(w, "sweep: placed", got.Placed, 0)
	agree(w, "sweep: promoted", got.Promoted, promoted)
	agree(w, "sweep: refused", got.Refused, refused)
	w.t.Logf("sweep: %d promoted, %d refused", promoted, refused)
}

func ids(jobs []*job) []int64 {
	all := []int64{}
	for _, j := range jobs {
		all = append(all, j.id)
	}
	return all
}

func idsOf(jobs []store.Job) []int64 {
	all := []int64{}
	for _, j := range jobs {
		all = append(all, j.ID)
	}
	return slices.Clip(all)
}
