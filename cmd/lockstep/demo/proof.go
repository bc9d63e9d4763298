package demo

import "time"

// entry is a row of the handlers' log. The rows are in the order in which they
// were inserted, each in a transaction of its own that was committed before its
// handler went on.
type entry struct {
	job   int64
	event event
	at    time.Time // by the database's clock
}

// verdict counts what went wrong; a queue that keeps its promises has zeros.
type verdict struct {
	lost       int // committed, and never ran to its end
	overlapped int // started while another job of its lane, or itself, was running
	outOfOrder int // started after one that committed later, or amid another's retries
	early      int // scheduled, and started before it was due
	ghosts     int // ran though its transaction was rolled back
	repeated   int // ran again after its end
}

func (v verdict) clean() bool { return v == verdict{} }

// prove compares what was sent with what was run.
func prove(jobs []sent, log []entry) verdict {
	p := proof{jobs: make(map[int64]*jobRun, len(jobs)), lanes: make(map[string]*laneRun)}
	for _, s := range jobs {
		p.jobs[s.id] = &jobRun{sent: s}
	}
	for _, e := range log {
		p.read(e)
	}
	for _, j := range p.jobs {
		if !j.ended {
			p.verdict.lost++
		}
	}
	return p.verdict
}

// proof reads the log once, keeping what each lane is at.
type proof struct {
	jobs    map[int64]*jobRun
	lanes   map[string]*laneRun
	verdict verdict
}

// jobRun is how far a job has come in the log.
type jobRun struct {
	sent
	started bool
	running int // attempts that have started and not ended
	ended   bool
}

// laneRun is how far a lane has come in the log.
type laneRun struct {
	running int
	open    int64          // the job that has started and still has to end for good, or 0
	latest  time.Time      // of the jobs started, the latest moment from which one may have been committed
	places  map[string]int // of the jobs started, the last place in each transaction
}

func (p *proof) read(e entry) {
	job := p.jobs[e.job]
	switch {
	case job == nil:
		if e.event == eventStart {
			p.verdict.ghosts++
		}
	case e.event == eventStart:
		p.start(job, e.at)
	default:
		p.end(job, e.event)
	}
}

func (p *proof) start(job *jobRun, at time.Time) {
	if job.ended {
		p.verdict.repeated++
	}
	if at.Before(job.notBefore) {
		p.verdict.early++
	}
	lane := p.lane(job.lane)
	if job.running > 0 || lane != nil && lane.running > 0 {
		p.verdict.overlapped++
	}
	if lane != nil {
		if !lane.enter(job) {
			p.verdict.outOfOrder++
		}
		lane.running++
	}
	job.running++
	job.started = true
}

func (p *proof) end(job *jobRun, e event) {
	job.running--
	if lane := p.lane(job.lane); lane != nil {
		lane.running--
		if e.final() && lane.open == job.id {
			lane.open = 0
		}
	}
	job.ended = job.ended || e.final()
}

// lane is nil for jobs without a key, which nothing holds together.
func (p *proof) lane(name string) *laneRun {
	if name == "" {
		return nil
	}
	if p.lanes[name] == nil {
		p.lanes[name] = &laneRun{places: make(map[string]int)}
	}
	return p.lanes[name]
}

// enter tells whether it is the job's turn to start an attempt: nobody else is
// between two attempts, and nobody who started before was committed later. A
// scheduled job joins when it falls due, so its commit says nothing.
func (l *laneRun) enter(job *jobRun) bool {
	inTurn := l.open == 0 || l.open == job.id
	l.open = job.id
	if job.started || !job.notBefore.IsZero() {
		return inTurn
	}
	place, known := l.places[job.tx]
	if job.to.Before(l.latest) || known && job.place < place {
		inTurn = false
	}
	if job.from.After(l.latest) {
		l.latest = job.from
	}
	l.places[job.tx] = max(place, job.place)
	return inTurn
}
