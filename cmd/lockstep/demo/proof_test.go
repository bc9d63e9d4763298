package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// moment is n seconds into the story that a test tells.
func moment(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// in is a job of a lane that was committed at an exact moment.
func in(lane string, id int64, committed int) sent {
	return sent{id: id, lane: lane, tx: moment(committed).String(), from: moment(committed), to: moment(committed)}
}

// logged is a log with a row a second.
func logged(rows ...entry) []entry {
	for i := range rows {
		rows[i].at = moment(i)
	}
	return rows
}

func TestProofCountsEveryKindOfFault(t *testing.T) {
	t.Parallel()
	start := func(job int64) entry { return entry{job: job, event: eventStart} }
	done := func(job int64) entry { return entry{job: job, event: eventDone} }
	failed := func(job int64) entry { return entry{job: job, event: eventFailed} }
	died := func(job int64) entry { return entry{job: job, event: eventDied} }
	place := func(s sent, place int) sent { s.place = place; return s }
	due := func(s sent, at int) sent { s.notBefore = moment(at); return s }
	overlapping := func(s sent, from, to int) sent { s.from, s.to = moment(from), moment(to); return s }

	for name, test := range map[string]struct {
		jobs []sent
		log  []entry
		want verdict
	}{
		"nothing": {},
		"a lane in order": {
			jobs: []sent{in("a", 1, 1), in("a", 2, 2)},
			log:  logged(start(1), done(1), start(2), done(2)),
		},
		"retries and a death in order": {
			jobs: []sent{in("a", 1, 1), in("a", 2, 2)},
			log:  logged(start(1), failed(1), start(1), died(1), start(2), done(2)),
		},
		"never started": {
			jobs: []sent{in("a", 1, 1)},
			want: verdict{lost: 1},
		},
		"never tried again": {
			jobs: []sent{in("", 1, 1)},
			log:  logged(start(1), failed(1)),
			want: verdict{lost: 1},
		},
		"two of a lane at once": {
			jobs: []sent{in("a", 1, 1), in("a", 2, 2)},
			log:  logged(start(1), start(2), done(1), done(2)),
			want: verdict{overlapped: 1, outOfOrder: 1},
		},
		"two attempts of a keyless job at once": {
			jobs: []sent{in("", 1, 1)},
			log:  logged(start(1), start(1), failed(1), done(1)),
			want: verdict{overlapped: 1},
		},
		"lanes and keyless jobs side by side": {
			jobs: []sent{in("a", 1, 1), in("b", 2, 2), in("", 3, 3), in("", 4, 4)},
			log:  logged(start(4), start(3), start(2), start(1), done(1), done(2), done(3), done(4)),
		},
		"against commit order": {
			jobs: []sent{in("a", 1, 1), in("a", 2, 2)},
			log:  logged(start(2), done(2), start(1), done(1)),
			want: verdict{outOfOrder: 1},
		},
		"against insertion order in one transaction": {
			jobs: []sent{place(in("a", 1, 1), 0), place(in("a", 2, 1), 1)},
			log:  logged(start(2), done(2), start(1), done(1)),
			want: verdict{outOfOrder: 1},
		},
		"amid another's retries": {
			jobs: []sent{in("a", 1, 1), in("a", 2, 2)},
			log:  logged(start(1), failed(1), start(2), done(2), start(1), done(1)),
			want: verdict{outOfOrder: 1},
		},
		"commits that overlap have no order": {
			jobs: []sent{overlapping(in("a", 1, 1), 1, 3), overlapping(in("a", 2, 2), 2, 4)},
			log:  logged(start(2), done(2), start(1), done(1)),
		},
		"commits that do not overlap have one": {
			jobs: []sent{overlapping(in("a", 1, 1), 1, 3), overlapping(in("a", 2, 2), 4, 5)},
			log:  logged(start(2), done(2), start(1), done(1)),
			want: verdict{outOfOrder: 1},
		},
		"a scheduled job takes its place when due": {
			jobs: []sent{due(in("a", 1, 1), 2), in("a", 2, 2)},
			log:  logged(start(2), done(2), start(1), done(1)),
		},
		"a scheduled job started early": {
			jobs: []sent{due(in("a", 1, 1), 7)},
			log:  logged(start(1), done(1)),
			want: verdict{early: 1},
		},
		"a rolled-back job ran": {
			log:  logged(start(9), done(9)),
			want: verdict{ghosts: 1},
		},
		"ran again after its end": {
			jobs: []sent{in("a", 1, 1)},
			log:  logged(start(1), done(1), start(1), done(1)),
			want: verdict{repeated: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, prove(test.jobs, test.log), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("the verdict differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEffectsHaveToBeThereExactlyOnce(t *testing.T) {
	t.Parallel()
	jobs := []sent{
		{id: 1, ledger: true},
		{id: 2, ledger: true, plan: plan{Dies: true}},
		{id: 3},
	}
	for name, test := range map[string]struct {
		effects map[int64]int
		want    int
	}{
		"as they should be": {effects: map[int64]int{1: 1}},
		"missing":           {want: 1},
		"twice":             {effects: map[int64]int{1: 2}, want: 1},
		"of a dead job":     {effects: map[int64]int{1: 1, 2: 1}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := wrongEffects(jobs, test.effects); got != test.want {
				t.Errorf("wrongEffects = %d, want %d", got, test.want)
			}
		})
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	t.Parallel()
	var l latencies
	for ms := 10; ms > 0; ms-- {
		l = append(l, time.Duration(ms)*time.Millisecond)
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 5, 51: 6, 99: 10, 100: 10} {
		if got := l.percentile(p); got != want*time.Millisecond {
			t.Errorf("percentile %d = %v, want %d ms", p, got, want)
		}
	}
	if got := latencies(nil).percentile(50); got != 0 {
		t.Errorf("percentile of nothing = %v", got)
	}
}
