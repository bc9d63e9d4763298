package order_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// judge compares what was sent with what happened.
func (r *run) judge(left int, refused error) verdict {
	ctx := context.WithoutCancel(r.t.Context())
	log, err := testimony(ctx, r.pool)
	if err != nil {
		r.t.Fatal(err)
	}
	v := prove(r.ledger.jobs, r.commits(ctx), log, r.states(ctx))
	v.left = left
	v.stuck = len(r.stuck)
	if refused != nil {
		v.note(&v.refused, "%v", refused)
	}
	return v
}

// commits tells when the producers' transactions were committed. A lane's entry
// lock is had before that moment and given up after it, so transactions that
// share a lane have their moments in the order in which they had the lock; two
// may share a microsecond.
func (r *run) commits(ctx context.Context) map[int64]time.Time {
	xids := make([]int64, len(r.ledger.jobs))
	for i, job := range r.ledger.jobs {
		xids[i] = job.xid
	}
	return lookUp[int64, time.Time](ctx, r, `
		select c.xid, c.at
		  from (select distinct u.xid, pg_xact_commit_timestamp(u.xid::text::xid8::xid) as at from unnest($1::bigint[]) u(xid)) c
		 where c.at is not null`, xids)
}

// states tells what became of each job, as everybody can read it.
func (r *run) states(ctx context.Context) map[int64]string {
	return lookUp[int64, string](ctx, r, `select id, state from lockstep.jobs`)
}

// lookUp reads two columns into a map.
func lookUp[K comparable, V any](ctx context.Context, r *run, sql string, args ...any) map[K]V {
	found := make(map[K]V)
	rows, err := r.pool.Query(ctx, sql, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	var key K
	var value V
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		found[key] = value
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return found
}

// verdict counts what went wrong: a queue that keeps its promises has zeros.
type verdict struct {
	jobs   int           // for the record: committed
	events map[event]int // for the record: of the log

	outOfOrder  int // first started after one that was committed later
	overlapped  int // started while another job of its lane, or itself, ran
	interrupted int // started amid another job's attempts
	early       int // started before it was due
	repeated    int // started again after its end
	ghosts      int // ran, or is on record, though its transaction was rolled back
	lost        int // committed, and neither completed nor cancelled nor deleted
	misrecorded int // ended otherwise than the record says
	left        int // still live, though nothing happened any more
	stuck       int // lanes that waited without a head
	refused     int // producers that got an error

	notes []string // of the first faults
}

const maxNotes = 10

// note counts a fault, and tells of it if it is one of the first.
func (v *verdict) note(count *int, format string, args ...any) {
	*count++
	if len(v.notes) < maxNotes {
		v.notes = append(v.notes, fmt.Sprintf(format, args...))
	}
}

func (v verdict) faults() int {
	return v.outOfOrder + v.overlapped + v.interrupted + v.early + v.repeated + v.ghosts +
		v.lost + v.misrecorded + v.left + v.stuck + v.refused
}

func (v verdict) String() string {
	text := fmt.Sprintf("%d jobs, events %v: %d out of order, %d overlapped, %d interrupted, %d early, %d repeated, "+
		"%d ghosts, %d lost, %d misrecorded, %d left, %d lanes stuck, %d producers refused", v.jobs, v.events, v.outOfOrder,
		v.overlapped, v.interrupted, v.early, v.repeated, v.ghosts, v.lost, v.misrecorded, v.left, v.stuck, v.refused)
	for _, note := range v.notes {
		text += "\n\t" + note
	}
	return text
}
