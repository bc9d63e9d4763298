package verify

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// at is n seconds into the story that a test tells.
func at(n int) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: time.Unix(int64(n), 0), Valid: true}
}

// ran is a job that was due when it was created and committed at a second, and
// ran for one from another.
func ran(id int64, committed, claimed int) entry {
	return entry{
		id: id, turn: id, fence: id, xid: int64(committed), created: at(committed), runAt: at(committed),
		committed: at(committed), claimed: at(claimed), ended: at(claimed + 1),
	}
}

func (e entry) due(n int) entry       { e.runAt = at(n); return e }
func (e entry) createdAt(n int) entry { e.created = at(n); return e }
func (e entry) waiting() entry {
	e.claimed, e.ended, e.fence = pgtype.Timestamptz{}, pgtype.Timestamptz{}, 0
	return e
}
func (e entry) untimed() entry { e.committed = pgtype.Timestamptz{}; return e }
func (e entry) givenBack(runAt int) entry {
	e.ended, e.runAt = pgtype.Timestamptz{}, at(runAt)
	return e
}

// TestOrderClaimsWhatIsSureAndNoMore judges the last of some jobs of a lane.
func TestOrderClaimsWhatIsSureAndNoMore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lane  []entry
		again bool // the jobs before the last were claimed more than once
		want  bool // something is wrong
	}{
		"in commit order":                                  {lane: []entry{ran(1, 1, 10), ran(2, 2, 20)}},
		"committed before the one before it":               {lane: []entry{ran(1, 3, 10), ran(2, 2, 20)}, want: true},
		"committed before one further back":                {lane: []entry{ran(1, 4, 10), ran(2, 5, 20).untimed(), ran(3, 3, 30)}, want: true},
		"waits, committed before one that ran":             {lane: []entry{ran(1, 3, 10), ran(2, 2, 0).waiting()}, want: true},
		"its commit time is forgotten":                     {lane: []entry{ran(1, 3, 10), ran(2, 2, 20).untimed()}},
		"the other's commit time is forgotten":             {lane: []entry{ran(1, 3, 10).untimed(), ran(2, 2, 20)}},
		"a commit time after the claim is another's":       {lane: []entry{ran(1, 15, 10).createdAt(1).due(1), ran(2, 2, 20)}},
		"a commit time before the creation is another's":   {lane: []entry{ran(1, 3, 10), ran(2, 2, 20).createdAt(4).due(4)}},
		"scheduled, after one that was committed later":    {lane: []entry{ran(1, 3, 10), ran(2, 2, 20).due(9)}},
		"before one that was committed after it fell due":  {lane: []entry{ran(1, 2, 10).due(5), ran(2, 6, 20)}},
		"before one that was committed before it fell due": {lane: []entry{ran(1, 2, 10).due(5), ran(2, 4, 20)}, want: true},
		"waits before one committed before it fell due":    {lane: []entry{ran(1, 2, 0).due(5).waiting(), ran(2, 4, 0).waiting()}, want: true},
		"the due time is that of a retry":                  {lane: []entry{ran(1, 2, 10).due(5), ran(2, 4, 20)}, again: true},
		"the due time is that of a replay":                 {lane: []entry{ran(1, 2, 3).givenBack(9), ran(2, 4, 20)}},
		"an earlier place":                                 {lane: []entry{ran(2, 2, 10), ran(1, 3, 20)}, want: true},
		"of one transaction, in the order of insertion":    {lane: []entry{ran(1, 2, 10), ran(2, 2, 20)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := order{keptFrom: time.Unix(0, 0)}
			for i, e := range test.lane {
				problem, _ := o.judge(e, test.again)
				if wrong := problem != ""; wrong != (test.want && i == len(test.lane)-1) {
					t.Errorf("job %d: %q", e.id, problem)
				}
			}
		})
	}
}

// TestDueTimesOutsideTheRetention are not believed: the attempts that would tell
// of a retry may have been dropped.
func TestDueTimesOutsideTheRetention(t *testing.T) {
	t.Parallel()
	o := order{keptFrom: time.Unix(3, 0)}
	o.judge(ran(1, 2, 10).due(5), false)
	if problem, _ := o.judge(ran(2, 4, 20), false); problem != "" {
		t.Error(problem)
	}
}

func TestCommitTimesOfNumbersThatCameRound(t *testing.T) {
	t.Parallel()
	for next, oldest := range map[uint64]uint64{3: 3, 1000: 3, xidWindow + 10: 10, 1<<40 + xidWindow: 1 << 40} {
		if got := newXIDRange(next); got.oldest != oldest || got.next != next {
			t.Errorf("before %d: from %d, want %d", next, got.oldest, oldest)
		}
	}
}
