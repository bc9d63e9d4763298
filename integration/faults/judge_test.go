package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Violation is a promise that was broken.
type Violation struct {
	Class string
	Text  string
}

// The classes.
const (
	lost          = "lost"           // committed, and not on record
	unfinished    = "unfinished"     // on record, and not over
	ghost         = "ghost"          // ran, or is on record, though its transaction was not committed
	halfCommitted = "half committed" // one job of a transaction exists, another does not
	wrongEnd      = "wrong end"      // ended otherwise than its script says, or than any handler said
	runTwice      = "run twice"      // one claim was, by its worker
	overlapped    = "overlapped"     // ran while another attempt of its lane did
	outOfOrder    = "out of order"   // ran after one that was committed later
	interleaved   = "interleaved"    // its lane went on before it was over
	unfenced      = "unfenced"       // a stale effect was accepted, or a good one refused
	notOnce       = "not once"       // a transactional effect is there twice, or not at all
	early         = "early"          // ran before it was due
	unblocked     = "unblocked"      // ran behind a dead head that nobody had let go
	leaseLost     = "lease lost"     // without a fault
)

// slack is how long a handler whose context has ended may take to say so on a
// machine that is busy.
const slack = 3 * time.Second

// judge reads a record and says which promises it breaks.
func judge(r Record) []Violation {
	j := &judgement{
		Record: r, jobs: map[string]*known{}, runs: map[string][]Run{}, lanes: map[Lane][]Run{}, effects: map[Lane][]Effect{},
	}
	j.index()
	j.existence()
	j.unanswered()
	j.ends()
	for lane, runs := range j.lanes {
		j.lane(lane, runs)
	}
	j.fenced()
	j.transactional()
	j.losses()
	slices.SortFunc(j.found, func(a, b Violation) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Text, b.Text)) })
	return j.found
}

// judgement is the record, arranged.
type judgement struct {
	Record
	jobs    map[string]*known
	order   []string         // of the jobs, by marker
	runs    map[string][]Run // of each job, by fence and start
	lanes   map[Lane][]Run   // the same
	effects map[Lane][]Effect
	found   []Violation
}

// known is a job with its transaction, and where it ended up.
type known struct {
	Job
	transaction *Transaction
	place       int
	final       *Final // nil: not on record
}

func (j *judgement) violated(class, format string, args ...any) {
	j.found = append(j.found, Violation{class, fmt.Sprintf(format, args...)})
}

func (j *judgement) index() {
	for i := range j.Transactions {
		t := &j.Transactions[i]
		for place, job := range t.Jobs {
			j.jobs[job.Marker] = &known{Job: job, transaction: t, place: place}
			j.order = append(j.order, job.Marker)
		}
	}
	for i := range j.Final {
		f := &j.Final[i]
		job := j.jobs[f.Marker]
		switch {
		case job == nil:
			j.violated(ghost, "job %d (%s) is on record, and nobody was about to commit it", f.ID, f.Marker)
		case job.final != nil:
			j.violated(wrongEnd, "%s is on record twice: as job %d and as job %d", f.Marker, job.final.ID, f.ID)
		case job.ID != 0 && job.ID != f.ID:
			j.violated(wrongEnd, "%s is on record as job %d, its producer was told %d", f.Marker, f.ID, job.ID)
		default:
			job.final = f
		}
	}
	for _, run := range j.Runs {
		if run.End == never { // its process ended first, or is said to
			if death, ok := j.Deaths[run.Worker]; ok {
				run.End = death
			}
		}
		j.runs[run.Marker] = append(j.runs[run.Marker], run)
		j.lanes[run.Lane] = append(j.lanes[run.Lane], run)
	}
	for _, runs := range j.runs {
		slices.SortStableFunc(runs, byFence)
	}
	for _, runs := range j.lanes {
		slices.SortStableFunc(runs, byFence)
	}
	for _, e := range j.Effects {
		j.effects[e.Lane] = append(j.effects[e.Lane], e)
	}
}

func byFence(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Start, b.Start))
}

// exists tells whether the job was committed: by its producer's word, or, where
// that is in doubt, because it is there.
func (j *judgement) exists(job *known) bool {
	return job.transaction.Fate == committed || job.final != nil || len(j.runs[job.Marker]) > 0
}

// existence compares what is on record and what ran with what was committed.
func (j *judgement) existence() {
	for marker, runs := range j.runs {
		if j.jobs[marker] == nil {
			j.violated(ghost, "nobody was about to commit it: %v", runs[0])
		}
	}
	for i := range j.Transactions {
		t := &j.Transactions[i]
		there := 0
		for _, job := range t.Jobs {
			k := j.jobs[job.Marker]
			if j.exists(k) {
				there++
			}
			switch {
			case t.Fate == committed && k.final == nil:
				j.violated(lost, "job %d (%s) of %v", job.ID, job.Marker, job.Lane)
			case t.Fate == rolledBack && j.exists(k):
				j.violated(ghost, "job %d (%s) of %v was rolled back", job.ID, job.Marker, job.Lane)
			case t.Fate == doubtful && k.final == nil && j.exists(k):
				j.violated(lost, "%s was in doubt, and ran, and is not on record", job.Marker)
			}
		}
		if t.Fate == doubtful && there != 0 && there != len(t.Jobs) {
			j.violated(halfCommitted, "%d of %d jobs of %s exist", there, len(t.Jobs), t.ID)
		}
	}
}

// unanswered wants on record what a producer was about to commit when the answer
// was lost on its way: the server had said that it was done.
func (j *judgement) unanswered() {
	for _, s := range j.Strikes {
		if s.Kind != enqueueUnanswered && s.Kind != commitUnanswered {
			continue
		}
		var last *Transaction
		for i := range j.Transactions {
			t := &j.Transactions[i]
			if t.Fate == doubtful && strings.HasPrefix(t.ID, s.Who+"-") && t.Sent <= s.To && (last == nil || t.Sent > last.Sent) {
				last = t
			}
		}
		if last != nil && !slices.ContainsFunc(last.Jobs, func(job Job) bool { return j.exists(j.jobs[job.Marker]) }) {
			j.violated(lost, "all of %s, which the server had committed when %s met it", last.ID, s.Kind)
		}
	}
}

// ends compares how each job ended with its script, and with what its handlers
// said: the outcome on record is that of the last attempt, once.
func (j *judgement) ends() {
	for _, marker := range j.order {
		job := j.jobs[marker]
		if job.final == nil {
			continue
		}
		want := completed
		if job.Dies {
			want = dead
		}
		switch {
		case job.final.State == "live":
			j.violated(unfinished, "job %d (%s) of %v", job.final.ID, marker, job.Lane)
			continue
		case job.final.State != string(want):
			j.violated(wrongEnd, "job %d (%s) is %s, its script says %s", job.final.ID, marker, job.final.State, want)
			continue
		}
		runs := j.runs[marker]
		if !slices.ContainsFunc(runs, func(r Run) bool { return r.Fence == job.final.Fence && r.Outcome == want }) {
			j.violated(wrongEnd, "job %d (%s) is %s under fence %d, and no handler said so", job.final.ID, marker, want, job.final.Fence)
		}
		if last := runs[max(len(runs)-1, 0):]; len(last) > 0 && last[0].Fence > job.final.Fence {
			j.violated(wrongEnd, "job %d (%s) ended under fence %d, and ran again: %v", job.final.ID, marker, job.final.Fence, last[0])
		}
	}
}

// fenced looks at the system outside: along a lane the fences of what it accepted
// never go back, what it refused was stale, and each plain job that ended as its script
// says has left its effect under the fence that is on record.
func (j *judgement) fenced() {
	accepted := map[string]bool{}
	for lane, effects := range j.effects {
		greatest := int64(0)
		for _, e := range effects {
			switch {
			case e.Accepted && e.Fence < greatest:
				j.violated(unfenced, "%v accepted fence %d after %d", lane, e.Fence, greatest)
			case !e.Accepted && e.Fence >= greatest:
				j.violated(unfenced, "%v refused fence %d, and the greatest was %d", lane, e.Fence, greatest)
			}
			if e.Accepted {
				greatest = max(greatest, e.Fence)
				accepted[fmt.Sprint(e.Marker, " ", e.Fence)] = true
			}
		}
	}
	for _, marker := range j.order {
		job := j.jobs[marker]
		if job.final == nil || job.InTx || job.final.State == "live" {
			continue
		}
		if !accepted[fmt.Sprint(marker, " ", job.final.Fence)] {
			j.violated(unfenced, "the attempt that ended job %d (%s), with fence %d, has no effect", job.final.ID, marker, job.final.Fence)
		}
	}
}

// transactional looks at the effects that were to commit together with their job.
func (j *judgement) transactional() {
	for _, marker := range j.order {
		job := j.jobs[marker]
		if !job.InTx || job.final == nil {
			continue
		}
		fences := j.InTx[marker]
		switch {
		case job.final.State != string(completed) && len(fences) > 0:
			j.violated(notOnce, "job %d (%s) is %s, and its effect is there", job.final.ID, marker, job.final.State)
		case job.final.State == string(completed) && !slices.Equal(fences, []int64{job.final.Fence}):
			j.violated(notOnce, "job %d (%s) completed under fence %d, its effects are there under %v", job.final.ID, marker, job.final.Fence, fences)
		}
	}
	for marker := range j.InTx {
		if job := j.jobs[marker]; job == nil || job.final == nil {
			j.violated(notOnce, "an effect of %s is there, and no such job", marker)
		}
	}
}

// losses wants a fault behind each claim that a worker lost: that a clock is
// stepped is none.
func (j *judgement) losses() {
	for _, l := range j.Losses {
		if !j.disturbed(l.Worker, l.At.plus(-2*j.Lease-slack), l.At) {
			j.violated(leaseLost, "%s lost job %d, fence %d, at %v: %s", l.Worker, l.JobID, l.Fence, time.Duration(l.At), l.Reason)
		}
	}
}

// disturbed tells whether a fault was struck meanwhile that keeps a worker from
// the database, or from working.
func (j *judgement) disturbed(worker string, from, to Moment) bool {
	return slices.ContainsFunc(j.Strikes, func(s Strike) bool {
		return s.From <= to && s.To >= from && (s.Who == "" || s.Who == worker) && !strings.HasPrefix(s.Kind, "clock")
	})
}

// frozen tells whether a worker stood still meanwhile.
func (j *judgement) frozen(worker string, from, to Moment) bool {
	return slices.ContainsFunc(j.Strikes, func(s Strike) bool {
		return s.From <= to && s.To >= from && s.Who == worker && strings.HasPrefix(s.Kind, "worker frozen")
	})
}
