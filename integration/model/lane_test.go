package model_test

import "slices"

// model is the whole queue. What it does is what DESIGN.md promises, one
// transaction at a time.
type model struct {
	jobs   []*job // all there ever were, by id
	lanes  map[string]*lane
	policy map[string]string // of each queue, for dead heads
	runs   map[*job]*transaction
	claims []claim // all that workers ever had
	step   int
	dues   int
	fence  int64 // the highest so far
}

func newModel() *model {
	return &model{
		lanes: map[string]*lane{}, runs: map[*job]*transaction{},
		policy: map[string]string{"skips": "skip", "blocks": "block"},
	}
}

// lane is the one of a keyed job.
func (m *model) lane(j *job) *lane {
	name := j.queue + "/" + j.key
	if m.lanes[name] == nil {
		m.lanes[name] = &lane{}
	}
	return m.lanes[name]
}

// behind is the job that waits behind a head; nil: none.
func (m *model) behind(j *job) *job {
	if !j.head() {
		return nil
	}
	return m.lane(j).next()
}

// all are the jobs for which is holds.
func (m *model) all(is func(*job) bool) []*job {
	var found []*job
	for _, j := range m.jobs {
		if is(j) {
			found = append(found, j)
		}
	}
	return found
}

// ready puts a job at the end of the ready line.
func (m *model) ready(j *job) { j.at, j.step = runs, m.step }

// enter puts jobs that are due into the queue, in their order: what a commit,
// a due time and a replay do. A transaction with an old snapshot can't tell who
// is in a lane: its jobs wait.
func (m *model) enter(jobs []*job, by *transaction) {
	for _, j := range jobs {
		if j.key != "" && !by.old() {
			m.promoteHeadless(m.lane(j), by)
		}
	}
	for _, j := range jobs {
		if j.key == "" {
			m.ready(j)
			continue
		}
		l := m.lane(j)
		if l.head == nil && len(l.waiting) == 0 && !by.old() {
			l.head = j
			m.ready(j)
		} else {
			l.waiting = append(l.waiting, j)
			j.at = waits
		}
	}
}

// promoteHeadless gives a lane that waits without a head its first job, unless
// somebody else has that one's row.
func (m *model) promoteHeadless(l *lane, by *transaction) bool {
	if l.head != nil || l.next() == nil || l.next().lockedBeside(by) {
		return false
	}
	m.promote(l)
	return true
}

func (m *model) promote(l *lane) {
	l.head, l.waiting = l.waiting[0], l.waiting[1:]
	m.ready(l.head)
}

// mayLeave tells whether a job's lane can move on without it at once. The next
// job must be nobody else's; an empty lane is only left under its entry lock.
func (m *model) mayLeave(j *job, mayRetire bool, by *transaction) bool {
	if !j.head() {
		return true
	}
	l := m.lane(j)
	if next := l.next(); next != nil {
		return !next.lockedBeside(by)
	}
	return mayRetire && l.entry == nil
}

// leave ends a job for good. It answers false if the job only could be settled.
func (m *model) leave(j *job, outcome string) bool {
	if outcome == "dead" && j.key != "" && j.at != blocks && m.policy[j.queue] == "block" {
		m.block(j)
		return true
	}
	if !m.mayLeave(j, true, nil) {
		m.settle(j, outcome)
		return false
	}
	m.exit(j, outcome)
	return true
}

// settle records an outcome. The first one stands.
func (m *model) settle(j *job, outcome string) {
	if !j.settled {
		j.settled, j.outcome = true, outcome
	}
}

// block keeps a dead head in its lane.
func (m *model) block(j *job) {
	j.at, j.letter, j.settled, j.worker, j.cancelled = blocks, true, false, 0, false
}

// exit takes a job out, and its lane moves on.
func (m *model) exit(j *job, outcome string) {
	if j.key != "" {
		m.remove(j)
		if l := m.lane(j); j.head() && l.next() != nil {
			m.promote(l)
		}
	}
	j.at, j.outcome, j.settled = out, outcome, false
	j.letter = outcome == "dead"
}

// remove takes a job out of its lane, and nothing else.
func (m *model) remove(j *job) {
	l := m.lane(j)
	if l.head == j {
		l.head = nil
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w *job) bool { return w == j })
}
