package verify

import "time"

// Report is what Run found.
type Report struct {
	// Schema that was verified.
	Schema string `json:"schema"`
	// LookedAt is the database's clock at the beginning.
	LookedAt time.Time `json:"looked_at"`
	// Findings break a promise; up to Config.Limit of each class are kept.
	Findings []Finding `json:"findings"`
	// Notices break none.
	Notices []Finding `json:"notices"`
	// Totals count all findings and notices, those not kept too, by class.
	Totals map[Class]int64 `json:"totals"`
	// Checked is what was read.
	Checked Checked `json:"checked"`
	// CommitTimes says that the server keeps commit times, so that the order
	// of commits could be compared.
	CommitTimes bool `json:"commit_times"`
	// RetentionDays is how long history is kept, in days.
	RetentionDays float64 `json:"retention_days"`

	limit int
}

// Checked counts what was read.
type Checked struct {
	Live     int64 `json:"live"`     // jobs not over yet
	Finished int64 `json:"finished"` // completed and cancelled jobs on record
	Dead     int64 `json:"dead"`     // dead letters
	Attempts int64 `json:"attempts"` // attempts on record that did not complete their job
	Lanes    int64 `json:"lanes"`
	// Timed and Untimed count the jobs of lanes whose commit time was known, and
	// those for which the server has forgotten it or never kept it.
	Timed   int64 `json:"timed"`
	Untimed int64 `json:"untimed"`
	// IDs is what became of the ids given.
	IDs IDs `json:"ids,omitzero"`
}

// IDs counts the ids of a producer's list by where their jobs are.
type IDs struct {
	Given       int64 `json:"given"`
	Live        int64 `json:"live"`
	Completed   int64 `json:"completed"`
	Cancelled   int64 `json:"cancelled"`
	Dead        int64 `json:"dead"`
	Missing     int64 `json:"missing"`       // a finding
	NotOnRecord int64 `json:"not_on_record"` // a notice
}

// Clean tells whether nothing was found that breaks a promise.
func (r Report) Clean() bool { return len(r.Findings) == 0 }

// Found counts all findings, those not kept too.
func (r Report) Found() int64 {
	var n int64
	for class, total := range r.Totals {
		if !class.Notice() {
			n += total
		}
	}
	return n
}

// add counts a finding or notice, and keeps it unless there are many of its
// class already.
func (r *Report) add(f Finding) {
	r.Totals[f.Class]++
	if r.Totals[f.Class] > int64(r.limit) {
		return
	}
	if f.Class.Notice() {
		r.Notices = append(r.Notices, f)
	} else {
		r.Findings = append(r.Findings, f)
	}
}
