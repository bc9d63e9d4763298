package verify

import (
	"fmt"
	"strings"
	"time"
)

// Class is what kind of thing was found.
type Class string

// What breaks a promise, or will: the findings.
const (
	Order       Class = "order"       // a job ran, or stands in its lane, against the order of commits
	Overlap     Class = "overlap"     // an attempt was claimed before the one before it in its lane was over
	Fence       Class = "fence"       // a fence did not grow along a lane
	Twice       Class = "twice"       // an id stands in two of live, finished and dead
	Headless    Class = "headless"    // jobs wait in a lane that has no head
	Unclaimable Class = "unclaimable" // jobs that may run, and that nobody can or will claim
	LeasePast   Class = "lease"       // a lease ended long ago, and nobody took the job
	Parked      Class = "parked"      // jobs are set aside as paused, and no pause covers them
	DeadLetter  Class = "dead-letter" // a blocked lane and its dead letter do not match
	Missing     Class = "missing"     // an id that should be on record is not
)

// What is worth knowing and breaks no promise: the notices.
const (
	Blocked     Class = "blocked"       // a lane waits behind its dead head, as its queue's policy says
	Paused      Class = "paused"        // jobs are set aside by a pause
	CommitTimes Class = "commit-times"  // the server keeps no commit times
	NotOnRecord Class = "not-on-record" // an id of a time of which history is no longer kept, or of a discarded dead letter
)

// Notice tells whether the class breaks no promise.
func (c Class) Notice() bool {
	switch c {
	case Blocked, Paused, CommitTimes, NotOnRecord:
		return true
	default:
		return false
	}
}

// Lane is where something was found. OrderingKey is empty for a job without
// one, and all are where a finding is about no job on record.
type Lane struct {
	Queue       string `json:"queue"`
	Tenant      string `json:"tenant,omitempty"`
	OrderingKey string `json:"ordering_key,omitempty"`
}

// String names the lane with its parts quoted, whatever is in them.
func (l Lane) String() string {
	parts := []string{fmt.Sprintf("queue %q", l.Queue)}
	if l.Tenant != "" {
		parts = append(parts, fmt.Sprintf("tenant %q", l.Tenant))
	}
	if l.OrderingKey != "" {
		parts = append(parts, fmt.Sprintf("ordering key %q", l.OrderingKey))
	}
	return strings.Join(parts, ", ")
}

// Finding is one thing that was found.
type Finding struct {
	Class Class `json:"class"`
	// Lane is that of the first job.
	Lane Lane `json:"lane,omitzero"`
	// IDs are the jobs it is about: all, or the first of many.
	IDs []int64 `json:"ids,omitempty"`
	// Jobs is how many it is about.
	Jobs int64 `json:"jobs"`
	// Text says in a sentence what is wrong, for a person.
	Text string `json:"text"`
}

// String is the finding on one line.
func (f Finding) String() string {
	line := string(f.Class) + ": "
	if f.Lane != (Lane{}) {
		line += f.Lane.String() + ": "
	}
	return line + f.Text
}

// about makes a finding about certain jobs of a lane.
func about(class Class, lane Lane, ids []int64, format string, args ...any) Finding {
	return Finding{Class: class, Lane: lane, IDs: ids, Jobs: int64(len(ids)), Text: fmt.Sprintf(format, args...)}
}

// stamp writes a time as exactly as PostgreSQL keeps it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// several is "1 job", "2 jobs".
func several(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
