package store

import (
	"context"
	"time"
)

// JobCounts are the jobs of all queues, as they were counted last.
type JobCounts struct {
	CountedAt time.Time // zero before the first count
	Counts    []JobCount
}

// JobCount are the jobs of one queue in one state.
type JobCount struct {
	Queue string `json:"queue"`
	State State  `json:"state"`
	Jobs  int64  `json:"jobs"`
	// Soonest is when the first of them was or will be due; nil for dead ones.
	Soonest *time.Time `json:"soonest"`
}

// CountJobs counts jobs by queue and state, for metrics. A count reads all live
// jobs, so there is at most one in maxAge over all processes, and the less
// often the longer it takes: in between, the last one is returned. A count made
// inside a transaction is seen by others when that commits.
func (s *Store) CountJobs(ctx context.Context, maxAge time.Duration) (JobCounts, error) {
	var c JobCounts
	err := s.do(ctx, func(db DB) error {
		var counted *time.Time
		var counts []byte
		err := db.QueryRow(ctx, s.sql("select counted_at, counts from @schema@.count_jobs(max_age => $1)"), maxAge).Scan(&counted, &counts)
		if err != nil {
			return err
		}
		c.CountedAt = orZero(counted)
		return unmarshal(counts, &c.Counts)
	})
	return c, err
}
