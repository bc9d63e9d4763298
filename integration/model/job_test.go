package model_test

// place is where a job is.
type place int

const (
	later   place = iota // scheduled, not in its lane yet
	waits                // behind its lane's head
	runs                 // may run or runs: a head, or without a key
	aside                // a head, or without a key, between attempts
	blocks               // a dead head that holds its lane
	out                  // finished, or a dead letter
	unknown              // deleted by hand, or discarded: no record is left
)

// job is a job as the model knows it.
type job struct {
	id                       int64
	queue, key, kind, dedupe string
	priority, most           int // most attempts

	at      place
	outcome string // of one that is out; of one that is settled: recorded, while its lane can't move on
	settled bool
	letter  bool // it has a dead letter

	attempt, lost int
	worker        int // index of the worker that has claimed it, from 1; 0: nobody
	fence         int64
	cancelled     bool // a cancel was asked for
	expired       bool // its lease has ended
	due           int  // its place among those that have fallen due; 0: it is not due
	ended         map[int64]ending

	step int   // at which it became ready
	turn int64 // as the database has it

	locked *transaction // whose open transaction has its row
}

// ending is the record of an attempt that did not complete its job.
type ending struct {
	worker  int
	outcome string
}

func (j *job) live() bool { return j.at != out && j.at != unknown }

// head tells whether it is its lane's.
func (j *job) head() bool { return j.key != "" && (j.at == runs || j.at == aside || j.at == blocks) }

// state is the public one.
func (j *job) state() string {
	switch {
	case j.settled, j.at == out:
		return j.outcome
	case j.at == later:
		return "scheduled"
	case j.at == waits:
		return "waiting"
	case j.at == blocks:
		return "dead"
	case j.at == aside && j.attempt > 0:
		return "retrying"
	case j.at == aside:
		return "scheduled"
	case j.worker != 0:
		return "running"
	default:
		return "ready"
	}
}

// claim is what a worker knows of an attempt, for as long as it likes.
type claim struct {
	*job
	fence  int64
	worker int
}

// stands tells whether the claim is still the worker's.
func (c claim) stands() bool {
	return c.live() && c.job.fence == c.fence && c.job.worker == c.worker
}

// afterwards is the answer to a report of a claim that does not stand.
func (c claim) afterwards() string {
	e, noted := c.ended[c.fence]
	switch {
	case e.outcome == "lost":
		return "lost"
	case (c.at == out || c.letter) && c.job.fence == c.fence, noted && e.worker == c.worker:
		return "already"
	default:
		return "lost"
	}
}

// lane is the jobs of one queue and ordering key.
type lane struct {
	head    *job
	waiting []*job
	entry   *transaction // whose open transaction has its entry lock
	run     *transaction // and its run lock
}

// next is the job that waits behind the head; nil: none.
func (l *lane) next() *job {
	if len(l.waiting) == 0 {
		return nil
	}
	return l.waiting[0]
}
