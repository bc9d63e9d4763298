package model_test

import (
	"cmp"
	"slices"
)

// claimable are the jobs that a claim takes or looks into, at most most.
func (m *model) claimable(queue string, kinds []string, most int) []*job {
	found := m.all(func(j *job) bool {
		return j.at == runs && j.queue == queue && slices.Contains(kinds, j.kind) &&
			(j.worker == 0 || j.expired) && !j.settled && j.locked == nil
	})
	slices.SortFunc(found, byPriorityThenTurn)
	return found[:min(most, len(found))]
}

func byPriorityThenTurn(a, b *job) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.turn, b.turn))
}

// claim answers what is taken, and which leases move on because a transactional
// handler still lives.
func (m *model) claim(queue string, kinds []string, most int) (taken, held []*job) {
	for _, j := range m.claimable(queue, kinds, most) {
		switch {
		case j.worker == 0:
			taken = append(taken, j)
		case m.runLock(j) != nil:
			j.expired = false
			held = append(held, j)
		case m.reclaim(j):
			taken = append(taken, j)
		}
	}
	return taken, held
}

// reclaim decides about a job whose worker is lost: true if it is claimed at once.
func (m *model) reclaim(j *job) bool {
	j.ended[j.fence] = ending{j.worker, "lost"}
	switch {
	case j.cancelled || j.attempt >= j.most:
		outcome := "dead"
		if j.cancelled {
			outcome = "cancelled"
		}
		if !m.leave(j, outcome) {
			j.worker = 0
		}
		return false
	case j.lost == 0:
		j.lost = 1
		return true
	default:
		j.lost++
		j.at, j.worker, j.expired, j.due = aside, 0, false, 0
		return false
	}
}

// grant makes a job a worker's.
func (m *model) grant(j *job, worker int, fence int64) {
	j.worker, j.fence, j.expired = worker, fence, false
	j.attempt++
	m.fence = max(m.fence, fence)
	m.claims = append(m.claims, claim{j, fence, worker})
}

// runLock is whose open transaction has a job's run lock.
func (m *model) runLock(j *job) *transaction {
	if j.key == "" {
		return m.runs[j]
	}
	return m.lane(j).run
}

// report is one outcome that a worker tells; delayed: not to run again at once.
type report struct {
	claim
	outcome string
	delayed bool
}

// finish answers for each report, and with the jobs that became heads.
func (m *model) finish(reports []report) (answers []string, fresh []*job) {
	for _, r := range reports {
		behind := m.behind(r.job)
		answer := m.finishOne(r)
		answers = append(answers, answer)
		if answer == "done" && behind != nil && m.lane(behind).head == behind {
			fresh = append(fresh, behind)
		}
	}
	return answers, fresh
}

func (m *model) finishOne(r report) string {
	j := r.job
	switch {
	case !r.stands():
		return r.afterwards()
	case j.locked != nil:
		return "busy"
	}
	plan := m.plan(r)
	if plan != "completed" && !j.settled {
		j.ended[j.fence] = ending{j.worker, plan}
	}
	switch plan {
	case "failed", "snoozed", "released":
		m.setAside(j, plan, r.delayed)
	default:
		if !m.leave(j, plan) {
			return "pending"
		}
	}
	return "done"
}

// plan is what is done about a report.
func (m *model) plan(r report) string {
	switch {
	case r.settled:
		return r.job.outcome
	case r.outcome == "completed", r.outcome == "cancelled", r.outcome == "dead":
		return r.outcome
	case r.cancelled:
		return "cancelled"
	case r.outcome == "failed" && r.attempt >= r.most:
		return "dead"
	default:
		return r.outcome
	}
}

// setAside gives a job back. Only a failure uses an attempt up.
func (m *model) setAside(j *job, outcome string, delayed bool) {
	if outcome != "failed" {
		j.attempt--
	}
	j.lost, j.worker, j.expired, j.due = 0, 0, false, 0
	if delayed && outcome != "released" {
		j.at = aside
	} else {
		m.ready(j)
	}
}

// taken are those of the new heads that a worker takes over: no other job of
// their queue is ready for it.
func (m *model) taken(fresh []*job, take []string) []*job {
	return slices.DeleteFunc(slices.Clone(fresh), func(j *job) bool {
		others := m.all(func(o *job) bool {
			return o.at == runs && o.queue == j.queue && slices.Contains(take, o.kind) &&
				(o.worker == 0 || o.expired) && !o.settled && !slices.Contains(fresh, o)
		})
		return !slices.Contains(take, j.kind) || len(others) > 0
	})
}

// extend renews a lease.
func (m *model) extend(c claim) string {
	switch {
	case !c.stands() || c.settled:
		return "lost"
	case c.locked != nil:
		return "busy"
	}
	c.expired = false
	if c.cancelled {
		return "cancelled"
	}
	return "extended"
}
