package protocol_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// journal is what the actors of a random run did and saw, by their own clocks,
// apart from what the database says.
type journal struct {
	mu       sync.Mutex
	jobs     map[int64]*fact
	early    map[int64][]func(*fact) // notes about jobs whose producer is not back yet
	lives    []*life
	counts   map[string]int
	problems []string
}

// fact is a job whose enqueue was committed.
type fact struct {
	lane      string // "" without a key
	xid       uint64
	scheduled bool
	replayed  bool
	discarded bool
	deleted   time.Time // by hand; zero: it was not
}

// life is one claim, as its worker knew it.
type life struct {
	job      store.Job
	lane     string
	start    time.Time // the claim was known by then
	end      time.Time // the report was about to be sent, or the lease had ended
	lease    time.Time // no sooner than that does the lease end
	recorded bool      // the outcome stands, the lane had not moved on
	lost     bool      // although the lease had not ended
	already  bool      // although nothing was recorded
}

func newJournal() *journal {
	return &journal{jobs: make(map[int64]*fact), early: make(map[int64][]func(*fact)), counts: make(map[string]int)}
}

func laneOf(queue, tenant, key string) string {
	if key == "" {
		return ""
	}
	return queue + "/" + tenant + "/" + key
}

func (j *journal) committed(jobs map[int64]*fact) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, f := range jobs {
		j.jobs[id] = f
		for _, note := range j.early[id] {
			note(f)
		}
		delete(j.early, id)
	}
}

// adopt takes jobs that no producer knows of for those that became of payloads
// noted under one_more, of which there may be as many. over are the jobs on
// record.
func (j *journal) adopt(over []int64) {
	j.mu.Lock()
	for id := range j.early {
		over = append(over, id)
	}
	for _, l := range j.lives {
		over = append(over, l.job.ID)
	}
	found := make(map[int64]*fact)
	for _, id := range over {
		if j.jobs[id] == nil {
			found[id] = &fact{scheduled: true}
		}
	}
	noted := j.counts["noted: one_more"]
	j.mu.Unlock()
	if len(found) > noted {
		j.problem("%d jobs were enqueued by nobody, and %d payloads noted", len(found), noted)
		return
	}
	j.committed(found)
}

func (j *journal) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

func (j *journal) problem(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

// mark notes what was done to a job.
func (j *journal) mark(id int64, note func(*fact)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.jobs[id]; f != nil {
		note(f)
	} else {
		j.early[id] = append(j.early[id], note)
	}
}

// begin opens the life of a claim that was sent at sent.
func (j *journal) begin(job store.Job, sent time.Time, lease time.Duration) *life {
	l := &life{job: job, lane: laneOf(job.Queue, job.Tenant, job.OrderingKey), start: time.Now(), lease: sent.Add(lease)}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lives = append(j.lives, l)
	return l
}

// judge compares what the actors saw with what must hold.
func (j *journal) judge() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.early {
		j.problems = append(j.problems, fmt.Sprintf("job %d was there and never enqueued", id))
	}
	lanes := make(map[string][]*life)
	for _, l := range j.lives {
		f := j.jobs[l.job.ID]
		if f == nil {
			j.problems = append(j.problems, fmt.Sprintf("job %d was claimed and never enqueued", l.job.ID))
			continue
		}
		l.bound(f)
		if l.lane != "" {
			lanes[l.lane] = append(lanes[l.lane], l)
		}
		if (l.lost || l.already) && f.deleted.IsZero() {
			j.problems = append(j.problems, fmt.Sprintf("job %d fence %d: lost %v, already %v, though its lease stood", l.job.ID, l.job.Fence, l.lost, l.already))
		}
	}
	for lane, lives := range lanes {
		slices.SortFunc(lives, func(a, b *life) int { return a.start.Compare(b.start) })
		j.judgeLane(lane, lives)
	}
	return j.problems
}

// bound ends a life no later than its lease, or the job's deletion by hand.
func (l *life) bound(f *fact) {
	if l.end.IsZero() || l.end.After(l.lease) {
		l.end = l.lease
	}
	if !f.deleted.IsZero() && l.end.After(f.deleted) {
		l.end = f.deleted
	}
}

func (j *journal) judgeLane(lane string, lives []*life) {
	var last *life
	for _, l := range lives {
		if !l.end.After(l.start) {
			continue // over before its worker knew of it
		}
		if last != nil && last.end.After(l.start) {
			j.problems = append(j.problems, fmt.Sprintf("lane %s: jobs %d and %d overlap by %v", lane, last.job.ID, l.job.ID, last.end.Sub(l.start)))
		}
		if last != nil && last.job.Fence >= l.job.Fence {
			j.problems = append(j.problems, fmt.Sprintf("lane %s: fence %d after %d", lane, l.job.Fence, last.job.Fence))
		}
		last = l
	}
}

// starts are the jobs of a lane in the order of their first starts, without
// those whose place is not that of their commit.
func (j *journal) starts() map[string][]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortFunc(j.lives, func(a, b *life) int { return cmp.Compare(a.job.Fence, b.job.Fence) })
	order, seen := make(map[string][]int64), make(map[int64]bool)
	for _, l := range j.lives {
		f := j.jobs[l.job.ID]
		if f == nil || l.lane == "" || seen[l.job.ID] || f.scheduled || f.replayed {
			continue
		}
		seen[l.job.ID] = true
		order[l.lane] = append(order[l.lane], l.job.ID)
	}
	return order
}
