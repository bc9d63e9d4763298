package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// stage is a database with a worker that does what a test tells it.
type stage struct {
	testing.TB
	db     *testdb.DB
	conn   *pgx.Conn
	worker store.WorkerID
}

func newStage(t testing.TB) *stage {
	t.Helper()
	db := testdb.New(t)
	s := &stage{TB: t, db: db, conn: db.Conn(t), worker: store.NewWorkerID()}
	s.sql("select lockstep.register($1, 'test', '{default}', '{k}', '1 day')", s.worker)
	return s
}

func (s *stage) sql(statement string, args ...any) {
	s.Helper()
	if _, err := s.conn.Exec(s.Context(), statement, args...); err != nil {
		s.Fatalf("%v\nin: %s", err, statement)
	}
}

// plant does what no function of ours does, with the triggers switched off.
func (s *stage) plant(statement string, args ...any) {
	s.Helper()
	s.sql("set session_replication_role = replica")
	s.sql(statement, args...)
	s.sql("set session_replication_role = origin")
}

// enqueue adds a job of a lane, or without a key, in a transaction of its own.
func (s *stage) enqueue(key string) int64 {
	s.Helper()
	return s.add(store.NewJob{Kind: "k", OrderingKey: key})
}

func (s *stage) add(job store.NewJob) int64 {
	s.Helper()
	done, err := store.New(s.conn).Enqueue(s.Context(), job)
	if err != nil {
		s.Fatal(err)
	}
	return done.ID
}

// claim takes the job that has to be the next one.
func (s *stage) claim(id int64) store.Job {
	s.Helper()
	got, err := store.New(s.conn).Claim(s.Context(), store.ClaimArgs{
		Worker: s.worker, Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: time.Minute,
	})
	if err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		s.Fatalf("claimed %v, %v; want job %d", got.Jobs, err, id)
	}
	return got.Jobs[0]
}

// end reports how an attempt ended; what runs again does so at once.
func (s *stage) end(job store.Job, outcome store.Outcome) {
	s.Helper()
	delay := time.Duration(0)
	args := store.FinishArgs{Worker: s.worker, Reports: []store.Finish{{
		Claim: store.Claim{ID: job.ID, Fence: job.Fence}, Outcome: outcome, Delay: &delay,
	}}}
	got, err := store.New(s.conn).Finish(s.Context(), args)
	if err != nil || got[job.ID].State != store.FinishDone {
		s.Fatalf("finish of job %d: %v, %v", job.ID, got, err)
	}
}

// run claims a job and ends it so.
func (s *stage) run(id int64, outcomes ...store.Outcome) {
	s.Helper()
	for _, outcome := range outcomes {
		s.end(s.claim(id), outcome)
	}
}

// verify verifies, without patience unless the test has some.
func (s *stage) verify(config verify.Config) verify.Report {
	s.Helper()
	if config.Patience == 0 {
		config.Patience = -1
	}
	report, err := verify.Run(s.Context(), s.conn, config)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

// between verifies with two looks, and has a statement run between them.
func (s *stage) between(statement string) verify.Report {
	s.Helper()
	done := false
	report := s.verify(verify.Config{Patience: time.Nanosecond, OnProgress: func(p verify.Progress) {
		if p.Step == "lanes" && !done {
			s.db.Exec(s, statement)
			done = true
		}
	}})
	if !done {
		s.Error("nothing ran between the two looks")
	}
	return report
}

// found wants exactly one finding, of a class, that says all of what is given.
func (s *stage) found(report verify.Report, class verify.Class, says ...string) verify.Finding {
	s.Helper()
	if len(report.Findings) != 1 || report.Findings[0].Class != class {
		s.Fatalf("found %v, want one of class %q", report.Findings, class)
	}
	for _, text := range says {
		if line := report.Findings[0].String(); !strings.Contains(line, text) {
			s.Errorf("the finding does not say %q: %s", text, line)
		}
	}
	return report.Findings[0]
}

// clean wants no finding.
func clean(t testing.TB, report verify.Report) {
	t.Helper()
	for _, f := range report.Findings {
		t.Errorf("found %v", f)
	}
}
