package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// ClaimArgs say what a worker can take.
type ClaimArgs struct {
	Worker WorkerID
	Queue  string
	// Kinds are names, or patterns that end in *, for all kinds that begin like
	// them. A pattern costs a look into an index per kind that has ready jobs.
	Kinds []string
	// Except are kinds, or patterns, to leave out. Where a kind is met by one
	// of Kinds and one of these, the closer match decides.
	Except []string
	Max    int           // free slots, 1 to 1000
	Lease  time.Duration // 1 s to 1 day
}

// Claimed is the answer to a claim: the jobs, and when to look again.
type Claimed struct {
	Jobs []Job
	// LookedAt is the database's clock at the look. The other times are by the
	// same clock: subtract LookedAt, never a local clock.
	LookedAt time.Time
	// DueAt is when the next scheduled, retried or snoozed job of any queue
	// falls due; zero means none is known.
	DueAt time.Time
	// LeaseEnd is the soonest lease end among the jobs seen; zero means none.
	LeaseEnd time.Time
	// LookAgain is the shortest lease of any live dispatcher: a lease that this
	// look did not see can end no sooner than LookAgain from now.
	LookAgain time.Duration
	// More says, if fewer than Max were taken, that a job was ready all the same, because
	// another transaction held its row for a moment or its suspect
	// attempt was being looked into: look again in a few milliseconds.
	More bool
	// Stuck are holders of run locks that outlived their lease by another one.
	Stuck []Stuck
	// Parked counts jobs met whose tenant or ordering key is paused, and set
	// aside: if there were any, look again at once, for what is behind them.
	Parked int
}

// Stuck is a transactional handler whose lease ended more than a lease ago
// while its database session still holds the lane's run lock. What Claim answers
// about one is equal each time: BackendStart is in UTC, whatever the session's
// time zone.
type Stuck struct {
	JobID        int64     `json:"job_id"`
	Fence        int64     `json:"fence"`
	PID          int       `json:"pid"`
	Role         string    `json:"role"`
	BackendStart time.Time `json:"backend_start"`
}

// An interval comes in nanoseconds, here and elsewhere: where answers come as text,
// as behind some poolers, it looks as the session's IntervalStyle says.
const claimSQL = `select jobs, looked_at, due_at, lease_end, (extract(epoch from look_again) * 1000000000)::bigint, more, stuck, parked
	from @schema@.claim(worker => $1, queue => $2, kinds => $3, max => $4, lease => $5, except_kinds => $6)`

// Claim takes up to args.Max jobs of one queue: the attempt counts from here.
// Jobs come by priority, then by their turn; never two of a lane, and none that
// is paused.
func (s *Store) Claim(ctx context.Context, args ClaimArgs) (Claimed, error) {
	var c Claimed
	err := s.do(ctx, func(db DB) error {
		rows, err := db.Query(ctx, s.sql(claimSQL), args.Worker, args.Queue, args.Kinds, args.Max, args.Lease, append([]string{}, args.Except...))
		if err != nil {
			return err
		}
		c, err = pgx.CollectExactlyOneRow(rows, scanClaimed)
		return err
	})
	return c, err
}

func scanClaimed(row pgx.CollectableRow) (Claimed, error) {
	var (
		c             Claimed
		jobs, stuck   []byte
		due, leaseEnd *time.Time
	)
	err := row.Scan(&jobs, &c.LookedAt, &due, &leaseEnd, &c.LookAgain, &c.More, &stuck, &c.Parked)
	if err != nil {
		return c, err
	}
	c.DueAt, c.LeaseEnd = orZero(due), orZero(leaseEnd)
	if err := unmarshal(jobs, &c.Jobs); err != nil {
		return c, err
	}
	err = unmarshal(stuck, &c.Stuck)
	for i := range c.Stuck {
		c.Stuck[i].BackendStart = c.Stuck[i].BackendStart.UTC()
	}
	return c, err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// unmarshal decodes JSON built by one of our functions; null leaves v alone.
func unmarshal(data []byte, v any) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, v)
}
