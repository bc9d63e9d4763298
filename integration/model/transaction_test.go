package model_test

import (
	"cmp"
	"slices"
)

// transaction is one that stays open while others go on. What it did shows when
// it commits; the rows it has are its own until then.
type transaction struct {
	repeatable bool // REPEATABLE READ
	entered    []*job
	effects    []func()
	rows       []*job
	lanes      []*lane // whose run or entry lock it has
	keyless    []*job  // whose run lock it has
}

// old tells whether its snapshot is older than its locks; nil is a transaction
// of one statement, which is not.
func (tx *transaction) old() bool { return tx != nil && tx.repeatable }

// lockedBeside tells whether somebody else than by has the job's row.
func (j *job) lockedBeside(by *transaction) bool { return j.locked != nil && j.locked != by }

// lock gives the transaction a job's row.
func (tx *transaction) lock(j *job) {
	j.locked = tx
	tx.rows = append(tx.rows, j)
}

// touches tells whether the transaction has a row of a job's lane.
func (tx *transaction) touches(j *job) bool {
	return slices.ContainsFunc(tx.rows, func(r *job) bool {
		return r == j || j.key != "" && r.queue == j.queue && r.key == j.key
	})
}

// commit shows what a transaction did.
func (m *model) commit(tx *transaction) {
	for _, effect := range tx.effects {
		effect()
	}
	m.jobs = append(m.jobs, tx.entered...)
	slices.SortFunc(m.jobs, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	m.enter(tx.placed(), tx)
	m.end(tx)
}

// placed are the jobs that enter their lanes as the transaction commits. The
// others stand where they are from their insertion on.
func (tx *transaction) placed() []*job {
	return slices.DeleteFunc(slices.Clone(tx.entered), func(j *job) bool { return j.key == "" || j.at == later })
}

// mayCommit tells whether the commit would wait for no other producer.
func (m *model) mayCommit(tx *transaction) bool {
	return !slices.ContainsFunc(tx.placed(), func(j *job) bool {
		return m.lane(j).entry != nil && m.lane(j).entry != tx
	})
}

// atCommit has an effect at the commit; its turns in the ready line are of now.
func (m *model) atCommit(tx *transaction, effect func()) {
	step := m.step
	tx.effects = append(tx.effects, func() {
		now := m.step
		m.step = step
		effect()
		m.step = now
	})
}

// end gives back what a transaction held.
func (m *model) end(tx *transaction) {
	for _, j := range tx.rows {
		j.locked = nil
	}
	for _, l := range tx.lanes {
		if l.entry == tx {
			l.entry = nil
		}
		if l.run == tx {
			l.run = nil
		}
	}
	for _, j := range tx.keyless {
		delete(m.runs, j)
	}
}

// behindHeld tells whether somebody has the row of a job that is to enter its lane
// before this one.
func (m *model) behindHeld(j *job) bool {
	return len(m.all(func(o *job) bool {
		return o.at == later && o.due > 0 && o.due < j.due && o.locked != nil && o.key != "" && m.lane(o) == m.lane(j)
	})) > 0
}

// fallenDue are the jobs that due looks at, in the order of their due times.
func (m *model) fallenDue() []*job {
	found := m.all(func(j *job) bool {
		return (j.at == later || j.at == aside) && j.due > 0 && j.locked == nil
	})
	slices.SortFunc(found, func(a, b *job) int { return cmp.Compare(a.due, b.due) })
	return found
}
