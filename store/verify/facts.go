package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// facts are what has to be known before history can be judged.
type facts struct {
	now       time.Time // the database's clock
	retention time.Duration
	// keptFrom is a moment from which on history is complete: neither finished
	// jobs nor attempts of jobs that were created later can have been dropped.
	keptFrom time.Time
	// home is since when the schema is at home in this database. Who enqueued jobs
	// that were created before may have been transactions of another one, from
	// which this was restored: their numbers are those of others here.
	home time.Time
	xids xidRange
}

// xidRange are the transactions whose commit times may be asked for: a
// transaction's number has 64 bits, but a commit time is found by 32 of them,
// so that of a transaction long ago would be another's. Numbers from oldest to
// before next differ in these 32. Both are 0 if no commit times are kept.
type xidRange struct{ oldest, next uint64 }

const (
	firstXID  = 3 // those before it are PostgreSQL's own
	xidWindow = 2_000_000_000
)

func newXIDRange(next uint64) xidRange {
	return xidRange{oldest: max(firstXID, next-min(next, xidWindow)), next: next}
}

// commitTime is SQL for the commit time of the transaction that a column of
// type xid8 names; null if the server does not know it.
func (x xidRange) commitTime(column string) string {
	if x.next == 0 {
		return "null::timestamptz"
	}
	return fmt.Sprintf("case when %[1]s >= '%[2]d'::xid8 and %[1]s < '%[3]d'::xid8 then pg_xact_commit_timestamp(%[1]s::xid) end",
		column, x.oldest, x.next)
}

// retentionSlack is how much younger than the retention a job has to be for
// its history to be surely there: its id and its times are drawn apart.
const retentionSlack = time.Hour

// factsSQL tells, besides, the first day of the history that has not been dropped:
// a retention that was lengthened brings nothing back.
const factsSQL = `
select clock_timestamp(), extract(epoch from @schema@.retention())::float8, pg_snapshot_xmax(pg_current_snapshot())::text, (
         select coalesce(min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp at time zone 'UTC', clock_timestamp())
           from pg_inherits i join pg_class c on c.oid = i.inhrelid
          where i.inhparent = $1::text::regclass and c.relname ~ '^finished_job_[0-9]{8}$')`

// learn finds out the facts.
func (r *run) learn(ctx context.Context) error {
	r.begin(0)
	r.began = time.Now()
	var next string
	var retention float64
	var firstDay time.Time
	err := r.snapshot(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, r.sql(factsSQL), r.schema+".finished_job").Scan(&r.facts.now, &retention, &next, &firstDay)
	})
	if err != nil {
		return err
	}
	r.facts.retention = time.Duration(min(retention, maxSeconds) * float64(time.Second))
	r.facts.keptFrom = r.facts.now.Add(retentionSlack - r.facts.retention)
	if firstDay.After(r.facts.keptFrom) {
		r.facts.keptFrom = firstDay
	}
	r.report.LookedAt, r.report.RetentionDays = r.facts.now, retention/secondsADay
	kept, err := r.keepsCommitTimes(ctx)
	if err != nil {
		return err
	}
	if !kept {
		r.report.add(Finding{Class: CommitTimes, Text: "the server keeps no commit times, so the order of commits could not be compared; " +
			"to keep them from now on: alter system set track_commit_timestamp = on, and restart the server"})
		return nil
	}
	r.report.CommitTimes = true
	home, err := r.atHome(ctx)
	if err != nil || !home {
		return err
	}
	xid, err := strconv.ParseUint(next, 10, 64)
	r.facts.xids = newXIDRange(xid)
	return err
}

const (
	secondsADay = 24 * 60 * 60
	maxSeconds  = 290 * 365 * secondsADay // about what a time.Duration holds
)

const homeSQL = `
select h.recorded_at from @schema@.home h join pg_database d on d.oid = h.database_oid and d.datname = h.database_name
 where h.here and d.datname = current_database() and (h.system_identifier = $1::bigint) is not false`

// atHome tells whether this is the database that the schema is at home in, and
// notes since when. It is not in a copy that nobody has adopted, or where no worker ever came.
func (r *run) atHome(ctx context.Context) (bool, error) {
	system, err := r.systemIdentifier(ctx)
	if err != nil {
		return false, err
	}
	err = r.snapshot(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, r.sql(homeSQL), system).Scan(&r.facts.home)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// noPrivilege is the SQLSTATE of a role that may not do what it tried.
const noPrivilege = "42501"

// systemIdentifier is that of the cluster; nil where the host denies it.
func (r *run) systemIdentifier(ctx context.Context) (system *int64, err error) {
	err = r.snapshot(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select system_identifier from pg_control_system()").Scan(&system)
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == noPrivilege {
		return nil, nil
	}
	return system, err
}

// notPrerequisite is the SQLSTATE for a server that keeps no commit times.
const notPrerequisite = "55000"

// keepsCommitTimes asks for one, since on a standby the setting says nothing.
func (r *run) keepsCommitTimes(ctx context.Context) (bool, error) {
	err := r.snapshot(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pg_xact_commit_timestamp($1::text::xid)", strconv.Itoa(firstXID))
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == notPrerequisite {
		return false, nil
	}
	return err == nil, err
}
