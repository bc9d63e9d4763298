package model_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const hour = time.Hour // a lease or a delay that does not end by itself

var kindSets = [][]string{{"k", "l"}, {"k", "l"}, {"k"}, {"l"}}

func (w *world) queue() string { return one(w, "queue", "skips", "blocks") }

// Claim takes jobs.
func (w *world) Claim() {
	worker, queue, kinds, most := one(w, "worker", 1, 2), w.queue(), one(w, "kinds", kindSets...), one(w, "most", 1, 2, 3, 4)
	claimed, err := store.New(w.conn).Claim(context.Background(), store.ClaimArgs{
		Worker: w.workers[worker-1], Queue: queue, Kinds: kinds, Max: most, Lease: hour,
	})
	w.must("claim", err)
	taken, held := w.claim(queue, kinds, most)
	slices.SortFunc(taken, byPriorityThenTurn)
	agree(w, "claim", fmt.Sprint(idsOf(claimed.Jobs)), fmt.Sprint(ids(taken)))
	before := w.fence
	for i, job := range claimed.Jobs {
		w.granted(taken[i], worker, job, before)
	}
	for _, j := range held { // it moved on by some seconds
		w.exec(w.conn, "update lockstep.job set lease_until = clock_timestamp() + interval '1 hour' where id = $1", j.id)
	}
	w.t.Logf("worker %d claims up to %d of %s %v: %v", worker, most, queue, kinds, ids(taken))
}

// granted compares a job that was claimed, and its fence with all before.
func (w *world) granted(j *job, worker int, got store.Job, before int64) {
	if got.Fence <= before {
		w.failf(w.t, "claim of %d has fence %d, not above %d", j.id, got.Fence, before)
	}
	w.grant(j, worker, got.Fence)
	agree(w, fmt.Sprintf("attempt of %d", j.id), got.Attempt, j.attempt)
	agree(w, fmt.Sprintf("lane of %d", j.id), got.Queue+"/"+got.OrderingKey, j.queue+"/"+j.key)
}

// Finish reports outcomes of one worker, also of claims that are long lost.
func (w *world) Finish() {
	worker, reports := w.reports()
	args := store.FinishArgs{Worker: w.workers[worker-1], Lease: hour}
	if w.percent(50, "take") {
		args.Take = one(w, "kinds", kindSets...)
	}
	for _, r := range reports {
		delay := time.Duration(0)
		if r.delayed {
			delay = hour
		}
		args.Reports = append(args.Reports, store.Finish{
			Claim: store.Claim{ID: r.id, Fence: r.fence}, Outcome: store.Outcome(r.outcome), Delay: &delay, Error: r.outcome,
		})
	}
	got, err := store.New(w.conn).Finish(context.Background(), args)
	w.must("finish", err)
	answers, fresh := w.finish(reports)
	for i, r := range reports {
		w.t.Logf("worker %d reports %d, fence %d: %s: %s", worker, r.id, r.fence, r.outcome, answers[i])
		agree(w, fmt.Sprintf("finish of %d, fence %d", r.id, r.fence), string(got[r.id].State), answers[i])
	}
	w.handedOver(worker, got, fresh, args.Take)
}

// handedOver compares the jobs that a finish claimed.
func (w *world) handedOver(worker int, got map[int64]store.Finished, fresh []*job, take []string) {
	taken := w.taken(fresh, take)
	before := w.fence
	var there []int64
	for _, answer := range got {
		if answer.Next == nil {
			continue
		}
		there = append(there, answer.Next.ID)
		if i := slices.IndexFunc(taken, func(j *job) bool { return j.id == answer.Next.ID }); i >= 0 {
			w.granted(taken[i], worker, *answer.Next, before)
		}
	}
	slices.Sort(there)
	slices.SortFunc(taken, func(a, b *job) int { return int(a.id - b.id) })
	agree(w, fmt.Sprintf("finish with %v hands over", take), fmt.Sprint(there), fmt.Sprint(ids(taken)))
}

// reports draws up to three claims of a worker, each of another job, and what
// became of them. Most stand.
func (w *world) reports() (worker int, reports []report) {
	first := w.someClaim(!w.percent(20, "stale"))
	for _, c := range append([]claim{first}, w.otherClaims(first)...) {
		reports = append(reports, report{
			claim:   c,
			outcome: one(w, "outcome", "completed", "completed", "completed", "failed", "failed", "dead", "snoozed", "released", "cancelled"),
			delayed: w.percent(50, "delayed"),
		})
	}
	return first.worker, reports
}

// someClaim draws a claim that there ever was, or only one that stands.
func (w *world) someClaim(standing bool) claim {
	return one(w, "claim", slices.DeleteFunc(slices.Clone(w.claims), func(c claim) bool { return standing && !c.stands() })...)
}

// otherClaims are up to two more that stand.
func (w *world) otherClaims(first claim) []claim {
	others := slices.DeleteFunc(slices.Clone(w.claims), func(c claim) bool {
		return !c.stands() || c.worker != first.worker || c.job == first.job
	})
	return others[:min(one(w, "more reports", 0, 1, 2), len(others))]
}

// Extend is a heartbeat, also of a claim that is long lost.
func (w *world) Extend() {
	c := w.someClaim(!w.percent(30, "stale"))
	got, err := store.New(w.conn).Extend(context.Background(), w.workers[c.worker-1], []store.Claim{{ID: c.id, Fence: c.fence}}, hour)
	w.must("extend", err)
	answer := w.extend(c)
	agree(w, fmt.Sprintf("extend of %d, fence %d", c.id, c.fence), string(got[c.id]), answer)
	w.t.Logf("worker %d extends %d, fence %d: %s", c.worker, c.id, c.fence, answer)
}

// LeaseEnds has a worker be silent for too long.
func (w *world) LeaseEnds() {
	j := w.row(func(j *job) bool { return j.at == runs && j.worker != 0 && !j.expired })
	w.exec(w.conn, "update lockstep.job set lease_until = clock_timestamp() - interval '1 s' where id = $1", j.id)
	j.expired = true
	w.t.Logf("the lease of %d ends", j.id)
}
