package verify

import "time"

// walk goes along the lanes, one after the other, and looks at every claim in
// the order in which they were made.
type walk struct {
	report *Report
	order  order

	begun bool
	lane  Lane
	only  int64 // the job, in a lane of one job without a key

	last   attempt // the claim before
	before int64   // the job of the claim before that of the job looked at
	over   attempt // of the claims before the last, the one that ended last
	fence  attempt // the one with the greatest fence so far
}

// attempt is a claim and its end.
type attempt struct {
	id, fence      int64
	claimed, ended time.Time // ended is zero if it is not known
}

// visit looks at the next entry.
func (w *walk) visit(e entry) {
	w.enter(e)
	if e.past {
		w.report.Checked.Attempts++
	}
	again := e.claimed.Valid && e.id == w.last.id && e.fence == w.last.fence
	switch {
	case again:
		w.last.ended = earlier(w.last.ended, e.ended.Time)
	case e.claimed.Valid:
		w.before = w.last.id
		w.claim(attempt{id: e.id, fence: e.fence, claimed: e.claimed.Time, ended: e.ended.Time})
	}
	if !e.past && e.lane.OrderingKey != "" {
		w.place(e)
	}
}

// enter notices the beginning of another lane.
func (w *walk) enter(e entry) {
	only := int64(0)
	if e.lane.OrderingKey == "" {
		only = e.id
	}
	if w.begun && w.lane == e.lane && w.only == only {
		return
	}
	if only == 0 {
		w.report.Checked.Lanes++
	}
	*w = walk{report: w.report, order: order{keptFrom: w.order.keptFrom}, begun: true, lane: e.lane, only: only}
}

// claim compares a claim with those before it.
func (w *walk) claim(a attempt) {
	if w.last.ended.After(w.over.ended) {
		w.over = w.last
	}
	if a.claimed.Before(w.over.ended) {
		w.report.add(about(Overlap, w.lane, pair(w.over.id, a.id),
			"job %d (fence %d) was claimed at %s, before the attempt of job %d (fence %d) was over at %s",
			a.id, a.fence, stamp(a.claimed), w.over.id, w.over.fence, stamp(w.over.ended)))
	}
	if w.fence.id != 0 && a.fence <= w.fence.fence {
		w.report.add(about(Fence, w.lane, pair(w.fence.id, a.id),
			"job %d was claimed at %s with fence %d, although job %d had fence %d at %s already",
			a.id, stamp(a.claimed), a.fence, w.fence.id, w.fence.fence, stamp(w.fence.claimed)))
	} else {
		w.fence = a
	}
	w.last = a
}

// place compares a job's place in the lane with those of the jobs before it. A
// dead head that blocks its lane comes twice; one that no trigger placed has no
// place.
func (w *walk) place(e entry) {
	if e.id == w.order.job || e.turn == 0 {
		return
	}
	if commitTime(e).IsZero() {
		w.report.Checked.Untimed++
	} else {
		w.report.Checked.Timed++
	}
	if problem, other := w.order.judge(e, w.before == e.id); problem != "" {
		w.report.add(about(Order, w.lane, pair(other, e.id), "%s", problem))
	}
}

// earlier is the earlier of two times, of which the zero one is unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// pair is two ids, or one where they are the same or the other is 0.
func pair(other, id int64) []int64 {
	if other == id || other == 0 {
		return []int64{id}
	}
	return []int64{other, id}
}
