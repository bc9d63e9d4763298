package verify

import (
	"fmt"
	"time"
)

// order is what a lane's jobs so far, in the order in which they ran, demand of
// the next one.
//
// What can be claimed, and no more:
//
// A job that was due when it was enqueued took its place while its transaction
// committed, with the lane's entry locked: no job before it can have been
// committed later. That it was due shows only in a job that was never set aside
// (by a retry, snooze, release or replay), as that overwrites its due time.
//
// A scheduled job takes its place when a dispatcher lets it in, some time after
// it fell due and was committed. So it may stand behind jobs that were committed
// later, but not before one that was committed earlier than it fell due.
//
// The jobs of one transaction stand in the order of their ids.
type order struct {
	keptFrom time.Time

	job    int64 // looked at last
	turn   int64 // the greatest place so far
	turnOf int64

	// No job that was due when it was enqueued, and comes now, may have been
	// committed before latest: latestOf was not there before that.
	latest   time.Time
	latestOf int64

	xid   int64 // of the last job that was due when it was enqueued
	xidOf int64
}

// judge says what is wrong with a job's place, and compared with which other
// job, if one. again tells that the job had been claimed before its last claim.
func (o *order) judge(e entry, again bool) (problem string, other int64) {
	committed := commitTime(e)
	due := e.runAt.Valid && !e.runAt.Time.After(e.created.Time)
	switch {
	case e.claimed.Valid && e.ended.Valid && e.runAt.Valid && e.claimed.Time.Before(e.runAt.Time):
		problem = fmt.Sprintf("job %d ran at %s, before it fell due at %s", e.id, stamp(e.claimed.Time), stamp(e.runAt.Time))
	case e.turn <= o.turn:
		problem = fmt.Sprintf("job %d, whose place is %d, %s after job %d, whose place is %d", e.id, e.turn, did(e), o.turnOf, o.turn)
		other = o.turnOf
	case due && !committed.IsZero() && committed.Before(o.latest):
		problem = fmt.Sprintf("job %d, committed at %s, %s after job %d, which was not there before %s",
			e.id, stamp(committed), did(e), o.latestOf, stamp(o.latest))
		other = o.latestOf
	case due && e.xid == o.xid && e.id < o.xidOf:
		problem = fmt.Sprintf("job %d %s after job %d, which the same transaction inserted after it", e.id, did(e), o.xidOf)
		other = o.xidOf
	}
	there := committed
	if problem == "" && !committed.IsZero() && o.scheduled(e, due, again) && e.runAt.Time.After(committed) {
		there = e.runAt.Time
	}
	o.remember(e, due, there)
	return problem, other
}

// scheduled tells whether a job's due time is surely the one for which it was
// scheduled. Each claim that ends without completing the job overwrites it; such
// a claim shows in the job's earlier ones, as long as these are on record, and
// in a last one that no worker has any more.
func (o *order) scheduled(e entry, due, again bool) bool {
	switch {
	case due || !e.runAt.Valid:
		return false
	case e.claimed.Valid:
		return e.ended.Valid && !again && e.created.Time.After(o.keptFrom)
	default:
		return true
	}
}

// remember adds a job, which can't have been in the lane before a moment (zero:
// not known), to what the next one is compared with.
func (o *order) remember(e entry, due bool, there time.Time) {
	o.job = e.id
	if e.turn > o.turn {
		o.turn, o.turnOf = e.turn, e.id
	}
	if there.After(o.latest) {
		o.latest, o.latestOf = there, e.id
	}
	if due {
		o.xid, o.xidOf = e.xid, e.id
	}
}

// commitTime is when a job's transaction committed; zero if that is not known.
// A time that is not between the job's creation and its claim is another
// transaction's: in a database that was restored from a dump, the numbers are
// those of the old one.
func commitTime(e entry) time.Time {
	at := e.committed.Time
	if !e.committed.Valid || at.Before(e.created.Time) || e.claimed.Valid && at.After(e.claimed.Time) {
		return time.Time{}
	}
	return at
}

// did says what a job does in its place.
func did(e entry) string {
	if e.claimed.Valid {
		return "ran"
	}
	return "waits"
}
