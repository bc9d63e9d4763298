package model_test

import (
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// without are ways to take a rule out of the SQL, and what the model then says.
var without = map[string]struct {
	edits []testdb.Edit
	seen  string
}{
	"the fence at a finish": {[]testdb.Edit{{
		File: "0012_finish.sql",
		Old:  "where l.id = u.id and l.fence = u.fence and l.worker = finish.worker",
		New:  "where l.id = u.id and l.worker = finish.worker",
	}}, ": the database answers "},
	"a place behind the waiting": {[]testdb.Edit{
		{File: "0008_place.sql", Old: "if waiting and not headed then", New: "if false then"},
		{File: "0008_place.sql", Old: "case when headed or waiting then", New: "case when headed then"},
	}, ": state: the database answers"},
	"the stage at a claim": {[]testdb.Edit{{
		File: "0010_claim.sql",
		Old:  "j.kind = k.kind and j.stage = 'r' and j.lease_until <= claim.looked_at",
		New:  "j.kind = k.kind and j.stage in ('r', 'w') and j.lease_until <= claim.looked_at",
	}}, "claim: the database answers"},
	"a lock on the next job": {[]testdb.Edit{{
		File: "0009_leave.sql",
		Old:  "where j.id = any (nexts) and j.stage::text = 'w' for update skip locked);",
		New:  "where j.id = any (nexts) and j.stage::text = 'w');",
	}}, "lock timeout"},
	"the entry lock at a retirement": {[]testdb.Edit{{
		File: "0009_leave.sql",
		Old:  "u.id <> all (held) and @schema@.try_entry(j.queue, j.tenant, j.ordering_key));",
		New:  "u.id <> all (held));",
	}}, "the database answers"},
}

// TestModelHasTeeth: the SQL without a rule does not agree with the model.
func TestModelHasTeeth(t *testing.T) {
	t.Parallel()
	for name, mutant := range without {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, testdb.NewFrom(t, testdb.Changed(t, mutant.edits...)))
			wrong := ""
			for try := 0; try < 5 && wrong == ""; try++ {
				wrong = s.firstWrong(t)
			}
			switch {
			case wrong == "":
				t.Error("the database agrees with the model without the rule")
			case !strings.Contains(wrong, mutant.seen):
				t.Errorf("it went wrong otherwise than was expected: %s\nwant: %s", wrong, mutant.seen)
			default:
				t.Log("without the rule:", wrong)
			}
		})
	}
}

// firstWrong runs sequences until one fails, and tells why.
func (s *stage) firstWrong(t *testing.T) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(&quiet{TB: t}, func(t *rapid.T) {
			if s.wrong != "" {
				t.Fatal(s.wrong) // found: there is no need to look for a shorter one
			}
			s.run(t)
		})
	}()
	<-done
	return s.wrong
}

// quiet is a test that may fail unheard.
type quiet struct {
	testing.TB
	failed bool
}

func (q *quiet) Log(...any)            {}
func (q *quiet) Logf(string, ...any)   {}
func (q *quiet) Error(...any)          { q.failed = true }
func (q *quiet) Errorf(string, ...any) { q.failed = true }
func (q *quiet) Fail()                 { q.failed = true }
func (q *quiet) Failed() bool          { return q.failed }
func (q *quiet) Fatal(...any)          { q.FailNow() }
func (q *quiet) Fatalf(string, ...any) { q.FailNow() }
func (q *quiet) FailNow()              { q.failed = true; runtime.Goexit() }
