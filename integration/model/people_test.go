package model_test

// What people do, and what any dispatcher does now and then. The answers that
// begin with LS are errors.

// cancel answers, and what has to be done about it when the transaction that
// cancels has committed.
func (m *model) cancel(j *job, by *transaction) (answer string, done func()) {
	nothing := func() {}
	switch {
	case j.at == unknown:
		return "LS005", nothing
	case j.at == out:
		return "ended", nothing
	case j.lockedBeside(by):
		return "busy", nothing
	case j.settled:
		return "ended", nothing
	case j.at == blocks:
		return "LS006", nothing
	case j.worker != 0:
		return "requested", func() { j.cancelled = true }
	case !m.mayLeave(j, false, by):
		return "cancelled", func() { m.settle(j, "cancelled") }
	default:
		return "cancelled", func() { m.exit(j, "cancelled") }
	}
}

// deleteByHand deletes a row by hand. Its lane may be left without a head.
func (m *model) deleteByHand(j *job) {
	if j.key != "" {
		m.remove(j)
	}
	j.at = unknown
}

// unblock lets a lane go on behind the dead head that blocks it.
func (m *model) unblock(l *lane) string {
	switch {
	case l.head == nil:
		return "LS005"
	case l.head.locked != nil:
		return "busy"
	case l.head.at != blocks:
		return "LS006"
	}
	return said(m.leave(l.head, "dead"), "unblocked")
}

// skipHead makes a head that nobody runs a dead letter.
func (m *model) skipHead(l *lane) string {
	switch {
	case l.head == nil:
		return "LS005"
	case l.head.locked != nil, l.head.settled:
		return "busy"
	case l.head.worker != 0:
		return "LS006"
	case l.head.at != blocks:
		m.block(l.head)
	}
	return said(m.leave(l.head, "dead"), "skipped")
}

func said(done bool, as string) string {
	if done {
		return as
	}
	return "pending"
}

// replay gives a dead job a new budget.
func (m *model) replay(j *job) string {
	switch {
	case !j.letter:
		return j.notDead()
	case j.live() && (j.locked != nil || j.settled):
		return "busy"
	case !j.live() && m.holder(j) != nil:
		if j.key != "" { // it was in for a moment, and its placing found the lane as it is
			m.promoteHeadless(m.lane(j), nil)
		}
		return "duplicate"
	}
	inPlace := j.live()
	j.letter, j.attempt, j.lost, j.worker, j.cancelled, j.expired = false, 0, 0, 0, false, false
	if inPlace {
		m.ready(j)
	} else {
		m.enter([]*job{j}, nil)
	}
	return "replayed"
}

// holder is the unfinished job that has a job's dedupe key: one that is settled
// has it no more.
func (m *model) holder(j *job) *job {
	for _, o := range m.jobs {
		if o.live() && !o.settled && o.sameKey(j) {
			return o
		}
	}
	return nil
}

func (j *job) sameKey(o *job) bool {
	return j.dedupe != "" && j.dedupe == o.dedupe && j.queue == o.queue
}

func (j *job) notDead() string {
	if j.at == unknown {
		return "LS005"
	}
	return "LS006"
}

// discard forgets a dead letter.
func (m *model) discard(j *job) string {
	switch {
	case !j.letter:
		return j.notDead()
	case j.live() && (j.settled || j.locked != nil || !m.mayLeave(j, true, nil)):
		return "busy"
	case j.live():
		m.leave(j, "dead")
	}
	j.at, j.letter = unknown, false
	return "discarded"
}

// setPolicy answers how many lanes stay blocked although none should.
func (m *model) setPolicy(queue, policy string) int {
	m.policy[queue] = policy
	if policy == "block" {
		return 0
	}
	m.retireSpared(queue)
	return len(m.all(func(j *job) bool { return j.at == blocks && !j.settled && j.queue == queue }))
}

// retireSpared lets lanes go on that are blocked against their queue's policy.
func (m *model) retireSpared(queue string) {
	for _, j := range m.all(func(j *job) bool {
		return j.at == blocks && !j.settled && j.locked == nil && j.queue == queue && m.policy[queue] == "skip"
	}) {
		m.leave(j, "dead")
	}
}

// due answers how many jobs fell due, and how many lanes of settled heads went on.
func (m *model) due() (due, retired int) {
	shut := map[*lane]bool{}
	for _, j := range m.all(func(j *job) bool { return j.settled && j.locked == nil }) {
		shut[m.lane(j)] = true
		if m.leave(j, j.outcome) {
			retired++
		}
	}
	if retired > 0 {
		clear(shut) // what could not move on is looked at anew
	}
	var entering []*job
	for _, j := range m.fallenDue() {
		switch {
		case j.at == aside || j.key == "":
			m.ready(j)
			due++
		case !shut[m.lane(j)] && m.lane(j).entry == nil && !m.behindHeld(j):
			entering = append(entering, j)
		}
	}
	m.enter(entering, nil)
	return due + len(entering), retired
}

// sweep answers how many lanes got their head back, and how many could not.
func (m *model) sweep() (promoted, refused int) {
	for queue := range m.policy {
		m.retireSpared(queue)
	}
	for _, l := range m.lanes {
		switch {
		case l.head != nil || len(l.waiting) == 0:
		case l.entry == nil && m.promoteHeadless(l, nil):
			promoted++
		default:
			refused++
		}
	}
	return promoted, refused
}
