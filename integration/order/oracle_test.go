package order_test

import "time"

// oracle reads the log once, keeping what each lane and job is at.
type oracle struct {
	jobs    map[int64]*jobRun
	lanes   map[string]*laneRun
	verdict verdict
}

// jobRun is how far a job has come in the log.
type jobRun struct {
	sent
	committed time.Time
	knifed    bool // deleted by hand, now or later: left out of the order
	started   bool
	running   bool
	asked     bool // a cancel was requested while it ran: a failed attempt may be its last
	over      event
}

// laneRun is how far a lane has come in the log.
type laneRun struct {
	running int           // attempts that have started and not ended
	open    *jobRun       // has started, and is not over
	latest  *jobRun       // the one committed last of those started
	places  map[int64]int // of the jobs started, the last place in each transaction
}

// prove compares what was sent, and when it was committed, with the log and
// with what is on record in the end.
func prove(jobs []sent, commits map[int64]time.Time, log []entry, states map[int64]string) verdict {
	o := &oracle{jobs: make(map[int64]*jobRun, len(jobs)), lanes: make(map[string]*laneRun)}
	o.verdict = verdict{jobs: len(jobs), events: make(map[event]int)}
	for _, s := range jobs {
		o.jobs[s.id] = &jobRun{sent: s, committed: commits[s.xid]}
		o.lanes[s.lane] = &laneRun{places: make(map[int64]int)}
	}
	for _, e := range log {
		if job := o.jobs[e.job]; job != nil && e.event == deleted {
			job.knifed = true
		}
	}
	for _, e := range log {
		o.read(e)
	}
	for _, job := range o.jobs {
		o.conclude(job, states[job.id])
	}
	for id := range states {
		if o.jobs[id] == nil {
			o.verdict.note(&o.verdict.ghosts, "job %d is on record, and was not committed", id)
		}
	}
	return o.verdict
}

func (o *oracle) read(e entry) {
	job := o.jobs[e.job]
	o.verdict.events[e.event]++
	switch {
	case job == nil:
		o.verdict.note(&o.verdict.ghosts, "job %d was %s, and was not committed", e.job, e.event)
	case job.over == deleted:
		// Its handler may still run, and the lane goes on.
	case e.event == started:
		o.start(job, o.lanes[job.lane], e.at)
	case e.event == requested:
		job.asked = true
	default:
		o.end(job, o.lanes[job.lane], e.event)
	}
}

func (o *oracle) start(job *jobRun, lane *laneRun, at time.Time) {
	v := &o.verdict
	if job.over != "" {
		v.note(&v.repeated, "%s: job %d started after it was %s", job.lane, job.id, job.over)
	}
	if at.Before(job.due) {
		v.note(&v.early, "%s: job %d started %v before it was due", job.lane, job.id, job.due.Sub(at))
	}
	if lane.running > 0 {
		v.note(&v.overlapped, "%s: job %d started while %d others ran", job.lane, job.id, lane.running)
	}
	if open := lane.open; open != nil && open != job {
		if !open.running && open.asked {
			open.over = cancelled
		} else {
			v.note(&v.interrupted, "%s: job %d started amid the attempts of job %d", job.lane, job.id, open.id)
		}
	}
	if !job.started && !job.knifed && job.due.IsZero() {
		o.enter(job, lane)
	}
	lane.open = job
	lane.running++
	job.started, job.running = true, true
}

// enter checks that nobody who has started was committed, or stood in its own
// transaction, after this job.
func (o *oracle) enter(job *jobRun, lane *laneRun) {
	v := &o.verdict
	place, known := lane.places[job.xid]
	switch {
	case lane.latest != nil && job.committed.Before(lane.latest.committed):
		v.note(&v.outOfOrder, "%s: job %d, committed %v before job %d, started after it",
			job.lane, job.id, lane.latest.committed.Sub(job.committed), lane.latest.id)
	case known && job.place < place:
		v.note(&v.outOfOrder, "%s: job %d, number %d of its transaction, started after number %d", job.lane, job.id, job.place, place)
	}
	lane.places[job.xid] = max(place, job.place)
	if lane.latest == nil || job.committed.After(lane.latest.committed) {
		lane.latest = job
	}
}

func (o *oracle) end(job *jobRun, lane *laneRun, e event) {
	if job.running {
		job.running = false
		lane.running--
	}
	if e == failed {
		return
	}
	job.over = e
	if lane.open == job {
		lane.open = nil
	}
}

// conclude compares how a job ended with what is on record.
func (o *oracle) conclude(job *jobRun, state string) {
	v := &o.verdict
	want := job.over
	if want == "" && job.asked && !job.running {
		want = cancelled
	}
	switch {
	case job.committed.IsZero():
		v.note(&v.ghosts, "job %d: PostgreSQL knows no commit of transaction %d", job.id, job.xid)
	case job.knifed:
		// Nothing is promised.
	case want == "":
		v.note(&v.lost, "%s: job %d never ended; on record it is %q", job.lane, job.id, state)
	case state != string(want):
		v.note(&v.misrecorded, "%s: job %d was %s; on record it is %q", job.lane, job.id, want, state)
	}
}
