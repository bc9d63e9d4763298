package faults

import (
	"time"
)

// lane judges the runs of a lane, which come in the order of their fences, so of
// their claims.
func (j *judgement) lane(lane Lane, runs []Run) {
	j.apart(lane, runs)
	j.once(lane, runs)
	if len(runs) > 0 && lane.Key != runs[0].Marker {
		j.inOrder(lane, runs)
	}
	j.due(runs)
}

// apart looks for attempts that overlap: one that runs on, or starts, when one
// with a greater fence has started.
func (j *judgement) apart(lane Lane, runs []Run) {
	next := never // the first start of a later attempt
	var rival Run
	for i := len(runs) - 1; i >= 0; i-- {
		run := runs[i]
		if i+1 < len(runs) && runs[i+1].Fence > run.Fence {
			for k := i + 1; k < len(runs) && runs[k].Fence == runs[i+1].Fence; k++ {
				if runs[k].Start < next {
					next, rival = runs[k].Start, runs[k]
				}
			}
		}
		if next < run.End && rival.Fence > run.Fence && !j.excused(run, next) {
			j.violated(overlapped, "%v: %v runs while %v does", lane, run, rival)
		}
	}
}

// once looks for claims that were run twice: under one fence the system outside
// can't tell the two apart. Only a transactional handler may start again under its
// fence, if its transaction was lost, and when it has ended.
func (j *judgement) once(lane Lane, runs []Run) {
	for i := 1; i < len(runs); i++ {
		first, second := runs[i-1], runs[i]
		if first.Fence == second.Fence && (!second.InTx || first.Worker != second.Worker || second.Start < first.End) {
			j.violated(runTwice, "%v: %v, and again %v", lane, first, second)
		}
	}
}

// excused tells whether an attempt may have been alive when the next one
// started: its process stood still and could not know that its lease had ended;
// or its handler does not care for its context, which had ended; or it was cut
// off, was told in time, and needed a moment to say so.
func (j *judgement) excused(run Run, next Moment) bool {
	since := run.Start.plus(-2 * j.Lease)
	if j.frozen(run.Worker, since, run.End) {
		return true
	}
	if !j.disturbed(run.Worker, since, next) {
		return false
	}
	job := j.jobs[run.Marker]
	told := run.Outcome == stopped || run.Outcome == running // its process died
	return job != nil && job.Stubborn || told && run.End < next.plus(slack)
}

// inOrder wants the jobs of a lane one after the other, each until it is over,
// in the order in which their transactions were committed as far as that is known.
func (j *judgement) inOrder(lane Lane, runs []Run) {
	var (
		seen   = map[string]bool{}
		places = map[string]int{} // by transaction
		latest Moment             // from when on the latest of them may have been committed
		who    string
		last   string // transaction
		before string
	)
	for _, run := range runs {
		if run.Marker == before {
			continue
		}
		begun := seen[run.Marker]
		if begun {
			j.violated(interleaved, "%v: %v runs after %s has begun", lane, run, before)
		}
		j.letGo(lane, before, run)
		before, seen[run.Marker] = run.Marker, true
		job := j.jobs[run.Marker]
		if job == nil || job.Delay > 0 {
			continue // a job that was due later joined its lane when it fell due
		}
		t := job.transaction
		place, again := places[t.ID]
		if t.Ended < latest || again && job.place < place {
			j.violated(outOfOrder, "%v: %s was committed before %s, and runs after it", lane, run.Marker, who)
		}
		if again && !begun && last != t.ID {
			j.violated(outOfOrder, "%v: %s runs after one of %s, and another of its own transaction before that", lane, run.Marker, last)
		}
		if t.Sent > latest {
			latest, who = t.Sent, run.Marker
		}
		places[t.ID], last = job.place, t.ID
	}
}

// letGo wants somebody's word before a lane goes on behind a dead job, where the
// queue's policy is to block.
func (j *judgement) letGo(lane Lane, before string, run Run) {
	job := j.jobs[before]
	if lane.Queue != blockQueue || job == nil || !job.Dies {
		return
	}
	died := never
	for _, r := range j.runs[before] {
		if r.Outcome == dead {
			died = min(died, r.End)
		}
	}
	for _, at := range j.Unblocked[lane] {
		if died < at && at < run.Start {
			return
		}
	}
	j.violated(unblocked, "%v: %v runs behind %s, which is dead", lane, run, before)
}

// due wants no job to start before its time: that of its enqueue, or that which
// the attempt before it asked for, if that attempt is on record as it said.
func (j *judgement) due(runs []Run) {
	for i, run := range runs {
		job := j.jobs[run.Marker]
		if job == nil {
			continue
		}
		if from := job.transaction.Began.plus(job.Delay); job.Delay > 0 && run.Start < from {
			j.violated(early, "%v, and is due at %v", run, time.Duration(from))
		}
		if i == 0 || runs[i-1].Marker != run.Marker || runs[i-1].Fence == run.Fence {
			continue
		}
		last := runs[i-1]
		asked := last.Outcome == failed || last.Outcome == snoozed
		if from := last.End.plus(job.Pause); asked && j.Attempts[last.Fence] == string(last.Outcome) && run.Start < from {
			j.violated(early, "%v, and the attempt before it asked for %v", run, time.Duration(from))
		}
	}
}
