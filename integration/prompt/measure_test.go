package prompt

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// The moment at which a job may run, by the database's clock: queries of job
// and moment.
const (
	byCommit = `select id, pg_xact_commit_timestamp(enqueued_xid::xid) from lockstep.finished_job`
	byRunAt  = `select id, run_at from lockstep.finished_job`
	// The first of a lane waits for nobody.
	byPromotion = `select id, greatest(lag(finished_at) over (partition by ordering_key order by lane_turn),
		pg_xact_commit_timestamp(enqueued_xid::xid)) from lockstep.finished_job`
	byRelease  = `select job_id, ended_at from lockstep.attempt where outcome = 'released'`
	byLeaseEnd = `select id, lease_until from lease_end`
)

const (
	limit      = 50 * time.Millisecond  // from the moment, or the reconnect, to the handler's start
	reconnect  = 200 * time.Millisecond // from the cut to a listener that is verified
	leaseEnded = "lease ended"
	leaseLimit = time.Second
	// Where the machine has other work too, so many starts must be within the
	// limit, and all within so much more; plus what the machine itself is late.
	// On the way from an INSERT to a handler's row about so many processes and
	// threads wait for their turn.
	share    = 0.95
	sluggish = 500 * time.Millisecond
	steps    = 10
)

// phase is how late the jobs of one phase started, sorted.
type phase struct {
	name  string
	late  []time.Duration
	worst gap // from the moment to the start of the latest
}

// gap is a time that passed: without signals, or without a start.
type gap struct{ from, to time.Time }

// measure compares the last start of each job with the moment it might run.
func (s *system) measure(t *testing.T, name, moments string, jobs []int64) {
	t.Helper()
	rows, err := s.Conn(t).Query(t.Context(), `
		with moment (job, at) as (`+moments+`)
		select distinct on (j.job) m.at, j.at from moment m join journal j on j.job = m.job
		 where j.what = 'start' and j.job = any ($1) order by j.job, j.seq desc`, jobs)
	if err != nil {
		t.Fatal(err)
	}
	gaps := s.gaps(t)
	p := phase{name: name}
	var may, started time.Time
	_, err = pgx.ForEachRow(rows, []any{&may, &started}, func() error {
		if started.Before(may) {
			t.Errorf("%s: a job started %v before it might run", name, may.Sub(started))
		}
		late := lateness(may, started, gaps)
		if len(p.late) == 0 || late > slices.Max(p.late) {
			p.worst = gap{may, started}
		}
		p.late = append(p.late, late)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.late) != len(jobs) {
		t.Fatalf("%s: %d of %d jobs have a moment and a start\n%s", name, len(p.late), len(jobs), s.Journal(t))
	}
	slices.Sort(p.late)
	s.phases = append(s.phases, p)
}

// lateness counts from the moment, or, if the signal fell into a gap, from the
// end of the gap. One sent just before may have been lost in the socket.
func lateness(may, started time.Time, gaps []gap) time.Duration {
	late := started.Sub(may)
	for _, g := range gaps {
		if !may.Before(g.from.Add(-limit)) && !may.After(g.to) {
			late = min(late, max(0, started.Sub(g.to)))
		}
	}
	return late
}

// cut terminates the listeners' backends and returns when they are back.
func (s *system) cut(t *testing.T) {
	t.Helper()
	s.awaitListeners(t)
	if err := cutOff(t.Context(), s.Conn(t)); err != nil {
		t.Fatal(err)
	}
	s.awaitListeners(t)
}

// awaitListeners returns when nobody is cut off.
func (s *system) awaitListeners(t *testing.T) {
	t.Helper()
	s.Await(t, `not exists (select from cut, (values ('a'), ('b')) w(worker)
		where not exists (select from journal j where j.worker = w.worker and j.what = 'listener state' and j.detail = 'connected' and j.at > cut.at))`)
}

// cutOff notes the moment, and terminates the listeners' backends.
func cutOff(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "insert into cut values (clock_timestamp())"); err != nil {
		return err
	}
	var listeners int
	err := conn.QueryRow(ctx, `
		select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
		 where application_name like '%lockstep listener' and datname = current_database()`).Scan(&listeners)
	if err == nil && listeners != 2 {
		err = fmt.Errorf("%d listeners were cut off, want 2", listeners)
	}
	return err
}

// gaps are the times from each cut to the first listener's return.
func (s *system) gaps(t *testing.T) []gap {
	t.Helper()
	rows, err := s.Conn(t).Query(t.Context(), `
		select c.at, min(j.at) from cut c join journal j on j.at > c.at and j.what = 'listener state' and j.detail = 'connected'
		 group by c.at order by c.at`)
	if err != nil {
		t.Fatal(err)
	}
	gaps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g gap, err error) {
		return g, row.Scan(&g.from, &g.to)
	})
	if err != nil {
		t.Fatal(err)
	}
	return gaps
}

// report prints what was measured, and judges it.
func (s *system) report(t *testing.T, machine phase) {
	t.Helper()
	t.Log(machine)
	var all []time.Duration
	for _, p := range s.phases {
		t.Log(p)
		most := limit
		if p.name == leaseEnded {
			most = leaseLimit
		} else {
			all = append(all, p.late...)
		}
		if !*strict {
			most += sluggish + machine.at(1)
		}
		if p.at(1) > most {
			t.Errorf("%s: a job started %v late, more than %v\n%s", p.name, p.at(1), most, s.JournalOf(t, p.worst.from.Add(-limit), p.worst.to))
		}
	}
	slices.Sort(all)
	everything := phase{name: "everything but leases", late: all}
	t.Log(everything)
	if most := limit + steps*machine.at(share); everything.at(share) > most {
		t.Errorf("%v %% of the jobs started within %v, want %v", share*100, everything.at(share), most)
	}
}

// reconnects judges how long the listeners took to come back.
func (s *system) reconnects(t *testing.T, machine phase, cuts int) {
	t.Helper()
	gaps := s.gaps(t)
	if len(gaps) != cuts {
		t.Errorf("the listeners came back %d times, want %d", len(gaps), cuts)
	}
	p := phase{name: "listeners back"}
	for _, g := range gaps {
		p.late = append(p.late, g.to.Sub(g.from))
	}
	slices.Sort(p.late)
	t.Log(p)
	judged, most := p.at(0.5), reconnect+steps*machine.at(share)
	if *strict {
		judged, most = p.at(1), reconnect
	}
	if judged > most {
		t.Errorf("the listeners took %v to come back, more than %v", judged, most)
	}
}

// expectNoPoll checks that the fallback poll found nothing, and says what did.
func (s *system) expectNoPoll(t *testing.T) {
	t.Helper()
	t.Log("jobs found: " + testdb.Value[string](t, s.DB, `
		select string_agg(format('%s by %s', jobs, wake), ', ' order by wake)
		  from (select split_part(detail, ' by ', 2) as wake, sum(split_part(detail, ' by ', 1)::integer) as jobs
		          from journal where what = 'looked' group by 1) l`))
	if n := testdb.Value[int](t, s.DB, `
		select count(*) from journal where what = 'looked' and detail like '% by poll' or what = 'lost signal'`); n > 0 {
		t.Errorf("%d looks found jobs by nothing but the poll\n%s", n, s.Journal(t))
	}
}

// at is a quantile: 1 for the worst.
func (p phase) at(q float64) time.Duration { return p.late[int(q*float64(len(p.late)-1))] }

// String is the distribution.
func (p phase) String() string {
	rounded := func(q float64) time.Duration { return p.at(q).Round(100 * time.Microsecond) }
	return fmt.Sprintf("%-30s n=%-4d p50 %-8v p95 %-8v max %v", p.name, len(p.late), rounded(0.5), rounded(0.95), rounded(1))
}
