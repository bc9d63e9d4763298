package dispatcher

import (
	"cmp"

	"github.com/lockstep-pg/lockstep/store"
)

// The bounds of one call of finish: the store's own, and what would make a
// statement large beyond reason.
const (
	maxReports = 1000
	maxKeyed   = 200
	maxBytes   = 4 << 20
)

// batch is a set of reports that can go in one call.
type batch struct {
	most    int // reports; 0: maxReports
	reports []*report
	jobs    map[int64]struct{}
	keyed   int
	take    bool   // slots wait for the next jobs of the keyed ones' lanes
	asker   *queue // one whose kinds they are to have
	bytes   int
	full    bool
}

// add takes a report in if it fits.
func (b *batch) add(r *report) bool {
	if b.full || len(b.reports) > 0 && (r.alone || !b.suits(r)) {
		return false
	}
	if b.jobs == nil {
		b.jobs = make(map[int64]struct{})
	}
	b.jobs[r.ID] = struct{}{}
	b.reports = append(b.reports, r)
	b.bytes += r.size()
	if r.attempt.keyed() {
		b.keyed++
		b.take = r.taker != nil
		b.asker = r.attempt.queue
	}
	b.full = r.alone || len(b.reports) == cmp.Or(b.most, maxReports)
	return true
}

// suits holds the rules of a set: answers come by job, so no job is in it
// twice; and what to take, if anything, is for all of a call, so a keyed report
// whose slot waits never goes with one whose slot is gone or is for other kinds.
// One without a key goes with any.
func (b *batch) suits(r *report) bool {
	if _, twice := b.jobs[r.ID]; twice || b.bytes+r.size() > maxBytes {
		return false
	}
	if !r.attempt.keyed() || b.keyed == 0 {
		return true
	}
	return b.keyed < maxKeyed && b.take == (r.taker != nil) && b.asker.sharesKinds(r.attempt.queue)
}

func (r *report) size() int { return len(r.Result) + len(r.Error) }

func (b *batch) finishes() []store.Finish {
	all := make([]store.Finish, len(b.reports))
	for i, r := range b.reports {
		all[i] = r.Finish
	}
	return all
}
