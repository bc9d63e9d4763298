package verify_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// ids is a list of them, one a line.
func ids(all ...int64) io.Reader {
	return strings.NewReader(strings.Join(strings.Fields(strings.Trim(fmt.Sprint(all), "[]")), "\n"))
}

func TestEveryGivenIDIsOnRecord(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("select lockstep.set_queue('default', on_dead => 'block')")
	completed, cancelled, dead, blocked := s.enqueue(""), s.enqueue(""), s.enqueue(""), s.enqueue("a")
	s.run(completed, store.Completed)
	s.sql("select lockstep.cancel($1)", cancelled)
	s.run(dead, store.Dead)
	s.run(blocked, store.Dead)
	running, waiting, scheduled := s.enqueue("b"), s.enqueue("b"), s.enqueue("")
	s.claim(running)
	s.sql("update lockstep.job set stage = 's', run_at = clock_timestamp() + interval '1 h' where id = $1", scheduled)

	report := s.verify(verify.Config{IDs: ids(completed, cancelled, dead, blocked, running, waiting, scheduled, scheduled)})
	clean(t, report)
	want := verify.IDs{Given: 8, Live: 4, Completed: 1, Cancelled: 1, Dead: 2}
	if diff := cmp.Diff(want, report.Checked.IDs); diff != "" {
		t.Errorf("the ids differ (-want +got):\n%s", diff)
	}
}

// TestAllThatWasGivenIsGone: a schema that is younger than what is kept has lost
// nothing by upkeep.
func TestAllThatWasGivenIsGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := s.enqueue(""), s.enqueue("a")
	s.plant("delete from lockstep.job")
	if report := s.verify(verify.Config{IDs: ids(first, second)}); report.Totals[verify.Missing] != 2 {
		t.Errorf("found %v, want that both are missing", report.Findings)
	}
	s.installed("8 days")
	clean(t, s.verify(verify.Config{IDs: ids(first, second)}))
}

// installed has the schema be there for so long.
func (s *stage) installed(ago string) {
	s.Helper()
	s.sql("update lockstep.migration set applied_at = applied_at - $1::interval", ago)
}

func TestFindsAGivenIDThatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, lost, last := s.enqueue(""), s.enqueue(""), s.enqueue("")
	s.plant("delete from lockstep.job where id = $1", lost)
	f := s.found(s.verify(verify.Config{IDs: ids(first, lost, last)}), verify.Missing, fmt.Sprintf("job %d is not on record", lost), "7 days")
	if f.IDs[0] != lost {
		t.Errorf("found %v, want job %d", f, lost)
	}
	s.found(s.verify(verify.Config{IDs: ids(last + 1)}), verify.Missing)
}

// TestWhatHistoryNoLongerHasIsNoFinding: the oldest jobs were dropped, as upkeep
// does, and a dead letter was discarded.
func TestWhatHistoryNoLongerHasIsNoFinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dropped, old, discarded, young := s.enqueue(""), s.enqueue(""), s.enqueue(""), s.enqueue("")
	s.run(dropped, store.Completed)
	s.run(old, store.Completed)
	s.run(discarded, store.Dead)
	s.sql("delete from lockstep.finished_job where id = $1", dropped)
	s.sql("update lockstep.finished_job set created_at = created_at - interval '7 days' where id = $1", old)
	s.sql("select lockstep.discard($1)", discarded)

	report := s.verify(verify.Config{IDs: ids(dropped, old, discarded, young)})
	clean(t, report)
	if len(report.Notices) != 2 || report.Totals[verify.NotOnRecord] != 2 {
		t.Fatalf("notices = %v, want two", report.Notices)
	}
	for i, says := range []string{"history is kept 7 days", "its dead letter was discarded"} {
		if n := report.Notices[i]; n.Class != verify.NotOnRecord || !strings.Contains(n.Text, says) {
			t.Errorf("the notice does not say %q: %v", says, n)
		}
	}
}

// TestARetentionThatWasLengthened brings nothing back that was dropped before, also
// where a dead letter is older.
func TestARetentionThatWasLengthened(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	letter, dropped, young := s.enqueue(""), s.enqueue(""), s.enqueue("")
	s.run(letter, store.Dead)
	s.run(dropped, store.Completed)
	s.sql("delete from lockstep.finished_job where id = $1", dropped)
	s.sql("update lockstep.dead_job set created_at = created_at - interval '20 days' where id = $1", letter)
	s.sql("select lockstep.set_limits(retention => '30 days')")
	report := s.verify(verify.Config{IDs: ids(letter, dropped, young)})
	clean(t, report)
	if report.Totals[verify.NotOnRecord] != 1 {
		t.Errorf("notices = %v, want one", report.Notices)
	}
}

// TestADeadLetterThatSomebodyTookAwayIsNoFinding, however it came to be one.
func TestADeadLetterThatSomebodyTookAwayIsNoFinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, fresh, retrying := s.enqueue(""), s.enqueue("a"), s.enqueue("b")
	s.run(first, store.Completed)
	s.sql("select lockstep.skip_head('default', '', 'a')")
	s.run(retrying, store.Failed)
	s.sql("select lockstep.skip_head('default', '', 'b')")
	purged := s.enqueue("a")
	s.sql("select lockstep.skip_head('default', '', 'a')")
	s.sql("select lockstep.discard($1), lockstep.discard($2)", fresh, retrying)
	s.sql("select lockstep.purge_dead('0')")

	report := s.verify(verify.Config{IDs: ids(first, fresh, retrying, purged)})
	clean(t, report)
	if report.Totals[verify.NotOnRecord] != 3 {
		t.Errorf("notices = %v, want three", report.Notices)
	}
	s.sql("select lockstep.set_limits(retention => '0')")
	s.sql("select lockstep.upkeep()")
	if n := testdb.Value[int](t, s.db, "select count(*) from lockstep.discarded"); n > 0 {
		t.Errorf("%d are still known past the retention", n)
	}
}

// TestNoEarlierAttemptExplainsThatAJobIsGone: it died and was replayed, or lost
// its worker.
func TestNoEarlierAttemptExplainsThatAJobIsGone(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *stage, id int64){
		"replayed": func(s *stage, id int64) {
			s.run(id, store.Dead)
			s.sql("select lockstep.replay($1)", id)
		},
		"lost by a worker": func(s *stage, id int64) {
			s.claim(id)
			s.sql("update lockstep.job set lease_until = clock_timestamp() - interval '1 s' where id = $1", id)
			s.claim(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			first, gone := s.enqueue(""), s.enqueue("")
			s.run(first, store.Completed)
			play(s, gone)
			s.plant("delete from lockstep.job where id = $1", gone)
			s.found(s.verify(verify.Config{IDs: ids(first, gone)}), verify.Missing)
		})
	}
}

func TestNothingIsSureOfAHistoryThatIsNotKept(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue("")
	s.sql("select lockstep.set_limits(retention => '30 minutes')")
	clean(t, s.verify(verify.Config{IDs: ids(1_000_000)}))
}

func TestAListOfManyPages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("insert into lockstep.job (kind) select 'k' from generate_series(1, 25000)")
	var list strings.Builder
	list.WriteString("\uFEFF")
	for id := 1; id <= 25000; id++ {
		fmt.Fprintf(&list, "%d\texisting\r\n\n", id)
	}
	list.WriteString("25001") // not on record, and without an end of line
	report := s.verify(verify.Config{IDs: strings.NewReader(list.String())})
	s.found(report, verify.Missing, "job 25001")
	if got := report.Checked.IDs; got.Given != 25001 || got.Live != 25000 {
		t.Errorf("%d ids given, %d live; want 25001 and 25000", got.Given, got.Live)
	}
}

func TestALineThatIsNoID(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for list, want := range map[string]int{
		"1\n\nx\n":                            3,
		"1.5":                                 1,
		"99999999999999999999":                1,
		"1\n" + strings.Repeat("9", 100_000):  2,
		"1\n2\n" + strings.Repeat("\x00", 10): 3,
	} {
		_, err := verify.Run(t.Context(), s.conn, verify.Config{Patience: -1, IDs: strings.NewReader(list)})
		var line *verify.LineError
		if !errors.As(err, &line) || line.Line != want {
			t.Errorf("%.20q: %v, want an error of line %d", list, err, want)
		}
	}
}

func TestAListThatCantBeRead(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	broken := errors.New("broken")
	reader, writer := io.Pipe()
	writer.CloseWithError(broken)
	if _, err := verify.Run(t.Context(), s.conn, verify.Config{Patience: -1, IDs: reader}); !errors.Is(err, broken) {
		t.Errorf("err = %v, want the reader's", err)
	}
}
