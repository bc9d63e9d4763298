package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tale is a short record that breaks nothing, for tests of the judge to break.
// A moment is a second.
func at(seconds float64) Moment { return Moment(seconds * float64(time.Second)) }

func inLane(key, marker string, id int64) Job {
	return Job{ID: id, Lane: Lane{skipQueue, key}, Script: Script{Marker: marker}}
}

// commitAt is a transaction whose COMMIT took half a second.
func commitAt(id string, sent float64, jobs ...Job) Transaction {
	return Transaction{ID: id, Fate: committed, Began: at(sent - 0.5), Sent: at(sent), Ended: at(sent + 0.5), Jobs: jobs}
}

func ran(job Job, fence int64, from, to float64, o Outcome) Run {
	return Run{Marker: job.Marker, JobID: job.ID, Lane: job.Lane, Fence: fence, Worker: "w", Start: at(from), End: at(to), Outcome: o}
}

func wrote(job Job, fence int64, when float64) Effect {
	return Effect{At: at(when), Lane: job.Lane, Fence: fence, Marker: job.Marker, Accepted: true}
}

func ended(job Job, fence int64, state Outcome) Final {
	return Final{ID: job.ID, Marker: job.Marker, State: string(state), Fence: fence}
}

var (
	jobA = inLane("l", "a/0", 1)
	jobB = inLane("l", "b/0", 2)
)

// tale: two jobs of one lane, committed and run one after the other.
func tale() Record {
	return Record{
		Lease:        time.Second,
		Transactions: []Transaction{commitAt("a", 1, jobA), commitAt("b", 3, jobB)},
		Runs:         []Run{ran(jobA, 10, 4, 5, completed), ran(jobB, 11, 6, 7, completed)},
		Effects:      []Effect{wrote(jobA, 10, 4.5), wrote(jobB, 11, 6.5)},
		Final:        []Final{ended(jobA, 10, completed), ended(jobB, 11, completed)},
		Unblocked:    map[Lane][]Moment{},
		Deaths:       map[string]Moment{},
		Attempts:     map[int64]string{},
		InTx:         map[string][]int64{},
	}
}

func freeze(from, to float64) Strike {
	return Strike{Kind: "worker frozen long", Who: "w", From: at(from), To: at(to)}
}

// TestJudgeFindsWhatIsPlanted breaks the tale in every way that there is a class
// for, and bends it in the ways that are no violation.
func TestJudgeFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Record)
		want   []string // classes
	}{
		"nothing": {func(*Record) {}, nil},
		"a committed job is gone": {func(r *Record) {
			r.Final, r.Runs, r.Effects = r.Final[:1], r.Runs[:1], r.Effects[:1]
		}, []string{lost}},
		"a committed job never ran": {func(r *Record) {
			r.Final[1].State, r.Runs, r.Effects = "live", r.Runs[:1], r.Effects[:1]
		}, []string{unfinished}},
		"in doubt, and there": {func(r *Record) {
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
		}, nil},
		"in doubt, and not there": {func(r *Record) {
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Final, r.Runs, r.Effects = r.Final[:1], r.Runs[:1], r.Effects[:1]
		}, nil},
		"committed without an answer, and not there": {func(r *Record) {
			r.Transactions[1].ID = "p 1.1-7"
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Final, r.Runs, r.Effects = r.Final[:1], r.Runs[:1], r.Effects[:1]
			r.Strikes = []Strike{{Kind: commitUnanswered, Who: "p 1.1", From: at(2), To: at(3.1)}}
		}, []string{lost}},
		"committed without an answer, and there": {func(r *Record) {
			r.Transactions[1].ID = "p 1.1-7"
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Strikes = []Strike{{Kind: commitUnanswered, Who: "p 1.1", From: at(2), To: at(3.1)}}
		}, nil},
		"in doubt, and not there, after another's answer was lost": {func(r *Record) {
			r.Transactions[1].ID = "p 1.10-7"
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Final, r.Runs, r.Effects = r.Final[:1], r.Runs[:1], r.Effects[:1]
			r.Strikes = []Strike{{Kind: commitUnanswered, Who: "p 1.1", From: at(2), To: at(3.1)}}
		}, nil},
		"in doubt, and there, and never run": {func(r *Record) {
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Final[1].State, r.Runs, r.Effects = "live", r.Runs[:1], r.Effects[:1]
		}, []string{unfinished}},
		"in doubt, run, and gone": {func(r *Record) {
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Final = r.Final[:1]
		}, []string{lost}},
		"half of a transaction in doubt": {func(r *Record) {
			r.Transactions[1].Fate, r.Transactions[1].Ended = doubtful, never
			r.Transactions[1].Jobs = append(r.Transactions[1].Jobs, inLane("m", "b/1", 3))
		}, []string{halfCommitted}},
		"a transaction was rolled back, and its job ran": {func(r *Record) {
			r.Transactions[1].Fate = rolledBack
		}, []string{ghost}},
		"a job of nobody's is on record": {func(r *Record) {
			r.Final = append(r.Final, ended(inLane("l", "c/0", 3), 12, completed))
		}, []string{ghost}},
		"a job of nobody's ran": {func(r *Record) {
			r.Runs = append(r.Runs, ran(inLane("m", "c/0", 3), 12, 8, 9, failed))
		}, []string{ghost}},

		"dead, and should not be": {func(r *Record) {
			r.Final[0].State = string(dead)
		}, []string{wrongEnd}},
		"completed under a fence that no handler had": {func(r *Record) {
			r.Final[0].Fence = 9
		}, []string{unfenced, wrongEnd, wrongEnd}},
		"completed, though its handler failed": {func(r *Record) {
			r.Runs[0].Outcome = failed
		}, []string{wrongEnd}},
		"run again after its end": {func(r *Record) {
			r.Runs[1] = ran(jobA, 11, 6, 7, completed)
			r.Transactions, r.Final = r.Transactions[:1], r.Final[:1]
		}, []string{wrongEnd}},
		"on record twice": {func(r *Record) {
			r.Final = append(r.Final, ended(jobA, 10, completed))
		}, []string{wrongEnd}},
		"another id than its producer was told": {func(r *Record) {
			r.Final[0].ID = 7
		}, []string{lost, wrongEnd}},

		"a claim run twice": {func(r *Record) {
			r.Runs = append(r.Runs, ran(jobA, 10, 5.2, 5.5, completed))
			r.Effects = append(r.Effects[:1:1], wrote(jobA, 10, 5.4), r.Effects[1])
		}, []string{runTwice}},
		"a transactional handler run again, as its transaction was lost": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
			r.InTx["a/0"] = []int64{10}
			r.Runs = append(r.Runs, ran(jobA, 10, 5.2, 5.5, completed))
			r.Runs[0].InTx, r.Runs[2].InTx = true, true
		}, nil},
		"a transactional handler run again before it ended": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
			r.InTx["a/0"] = []int64{10}
			r.Runs = append(r.Runs, ran(jobA, 10, 4.8, 5.5, completed))
			r.Runs[0].InTx, r.Runs[2].InTx = true, true
		}, []string{runTwice}},

		"two attempts at once": {func(r *Record) {
			r.Runs[0].End = at(6.5)
		}, []string{overlapped}},
		"two attempts at once, while the first one's worker was frozen": {func(r *Record) {
			r.Runs[0].End, r.Strikes = at(60), []Strike{freeze(4.2, 59)}
		}, nil},
		"two attempts at once, while another worker was frozen": {func(r *Record) {
			other := freeze(4.2, 6)
			other.Who = "x"
			r.Runs[0].End, r.Strikes = at(6.5), []Strike{other}
		}, []string{overlapped}},
		"cut off, and told so in time": {func(r *Record) {
			r.Runs = append(r.Runs, ran(jobA, 9, 2, 4.4, stopped))
			r.Strikes = []Strike{{Kind: "black hole", Who: "w", From: at(2.1), To: at(3)}}
		}, nil},
		"cut off, and told late": {func(r *Record) {
			r.Runs = append(r.Runs, ran(jobA, 9, 2, 20, stopped))
			r.Strikes = []Strike{{Kind: "black hole", Who: "w", From: at(2.1), To: at(3)}}
		}, []string{overlapped}},
		"cut off, and not told": {func(r *Record) {
			r.Runs[0].End, r.Strikes = at(6.5), []Strike{{Kind: "black hole", Who: "w", From: at(4.1), To: at(5)}}
		}, []string{overlapped}},
		"a clock was stepped, which is no excuse": {func(r *Record) {
			r.Runs[0].End, r.Strikes = at(6.5), []Strike{{Kind: "clock ahead", Who: "w", From: at(4.1), To: at(5)}}
		}, []string{overlapped}},
		"a process died, and its handler with it": {func(r *Record) {
			r.Runs[0].Worker, r.Runs[0].End, r.Runs[0].Outcome = "x", never, running
			r.Deaths["x"] = at(4.6)
			r.Runs = append(r.Runs, ran(jobA, 12, 4.7, 5, completed))
			r.Runs[1].Fence, r.Final[1].Fence, r.Effects[1].Fence = 13, 13, 13
			r.Final[0].Fence, r.Effects[0].Fence = 12, 12
		}, nil},
		"a process died after its job was given away": {func(r *Record) {
			r.Runs[0].Worker, r.Runs[0].End, r.Runs[0].Outcome = "x", never, running
			r.Deaths["x"] = at(6.5)
			r.Runs = append(r.Runs, ran(jobA, 12, 4.7, 5, completed))
			r.Runs[1].Fence, r.Final[1].Fence, r.Effects[1].Fence = 13, 13, 13
			r.Final[0].Fence, r.Effects[0].Fence = 12, 12
		}, []string{overlapped}},
		"a stale start": {func(r *Record) {
			r.Runs = append(r.Runs, Run{Marker: "a/0", JobID: 1, Lane: jobA.Lane, Fence: 9, Worker: "w", Start: at(6.2), End: at(6.3), Outcome: stopped})
		}, []string{overlapped}},
		"a stale start after a freeze": {func(r *Record) {
			r.Runs = append(r.Runs, Run{Marker: "a/0", JobID: 1, Lane: jobA.Lane, Fence: 9, Worker: "w", Start: at(6.2), End: at(6.3), Outcome: stopped})
			r.Strikes = []Strike{freeze(3, 6)}
		}, nil},

		"the later commit first": {func(r *Record) {
			r.Transactions[0], r.Transactions[1] = commitAt("b", 1, jobB), commitAt("a", 3, jobA)
		}, []string{outOfOrder}},
		"commits that overlap": {func(r *Record) {
			r.Transactions[0], r.Transactions[1] = commitAt("b", 1, jobB), commitAt("a", 1.2, jobA)
		}, nil},
		"the later commit first, of one in doubt": {func(r *Record) {
			r.Transactions[0], r.Transactions[1] = commitAt("b", 1, jobB), commitAt("a", 3, jobA)
			r.Transactions[0].Fate, r.Transactions[0].Ended = doubtful, never
		}, nil},
		"a scheduled job after a later one": {func(r *Record) {
			late := jobB
			late.Delay = time.Second
			r.Transactions[0], r.Transactions[1] = commitAt("b", 1, late), commitAt("a", 3, jobA)
		}, nil},
		"the second of a transaction first": {func(r *Record) {
			r.Transactions = []Transaction{commitAt("a", 1, jobB, jobA)}
		}, []string{outOfOrder}},
		"another transaction between two jobs of one": {func(r *Record) {
			third := inLane("l", "a/1", 3)
			r.Transactions[0], r.Transactions[1] = commitAt("a", 1, jobA, third), commitAt("b", 1.2, jobB)
			r.Runs = append(r.Runs, ran(third, 12, 8, 9, completed))
			r.Effects = append(r.Effects, wrote(third, 12, 8.5))
			r.Final = append(r.Final, ended(third, 12, completed))
		}, []string{outOfOrder}},
		"another job between two attempts": {func(r *Record) {
			r.Runs[0].Outcome = failed
			r.Runs = append(r.Runs, ran(jobA, 12, 8, 9, completed))
			r.Final[0].Fence = 12
			r.Effects[0] = wrote(jobA, 12, 8.5)
			slices.Reverse(r.Effects)
		}, []string{interleaved, outOfOrder}},

		"a stale effect was accepted": {func(r *Record) {
			r.Effects = append(r.Effects, wrote(jobA, 10, 7))
		}, []string{unfenced}},
		"a stale effect was refused": {func(r *Record) {
			stale := wrote(jobA, 10, 7)
			stale.Accepted = false
			r.Effects = append(r.Effects, stale)
		}, nil},
		"a good effect was refused": {func(r *Record) {
			r.Effects[1].Accepted = false
		}, []string{unfenced, unfenced}},
		"completed without its effect": {func(r *Record) {
			r.Effects = r.Effects[:1]
		}, []string{unfenced}},

		"a transactional effect": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
			r.InTx["a/0"] = []int64{10}
		}, nil},
		"a transactional effect twice": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
			r.InTx["a/0"] = []int64{10, 10}
		}, []string{notOnce}},
		"no transactional effect": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
		}, []string{notOnce}},
		"a transactional effect of another attempt": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Effects = true, r.Effects[1:]
			r.InTx["a/0"] = []int64{9}
		}, []string{notOnce}},
		"a transactional effect of a dead job": {func(r *Record) {
			r.Transactions[0].Jobs[0].InTx, r.Transactions[0].Jobs[0].Dies, r.Effects = true, true, r.Effects[1:]
			r.Runs[0].Outcome, r.Final[0].State = dead, string(dead)
			r.InTx["a/0"] = []int64{10}
		}, []string{notOnce}},
		"a transactional effect of no job": {func(r *Record) {
			r.InTx["c/0"] = []int64{10}
		}, []string{notOnce}},

		"before it was due": {func(r *Record) {
			r.Transactions[0].Jobs[0].Delay = time.Minute
		}, []string{early}},
		"again, sooner than it asked for": {func(r *Record) {
			r.Transactions[0].Jobs[0].Pause = time.Second
			r.Runs = append(r.Runs, ran(jobA, 9, 2, 3.5, failed))
			r.Attempts[9] = string(failed)
		}, []string{early}},
		"again, sooner than a stale attempt asked for": {func(r *Record) {
			r.Transactions[0].Jobs[0].Pause = time.Second
			r.Runs = append(r.Runs, ran(jobA, 9, 2, 3.5, failed))
			r.Attempts[9] = "lost"
		}, nil},

		"behind a dead head": {func(r *Record) { blockTale(r) }, []string{unblocked}},
		"behind a dead head that somebody let go": {func(r *Record) {
			blockTale(r)
			r.Unblocked[Lane{blockQueue, "l"}] = []Moment{at(5.5)}
		}, nil},
		"behind a dead head that was let go too late": {func(r *Record) {
			blockTale(r)
			r.Unblocked[Lane{blockQueue, "l"}] = []Moment{at(2), at(6.5)}
		}, []string{unblocked}},

		"a claim lost, by a freeze": {func(r *Record) {
			r.Losses, r.Strikes = []Lost{{At: at(6), Worker: "w", JobID: 1, Fence: 10}}, []Strike{freeze(4, 5)}
		}, nil},
		"a claim lost, by nothing": {func(r *Record) {
			r.Losses = []Lost{{At: at(6), Worker: "w", JobID: 1, Fence: 10}}
		}, []string{leaseLost}},
		"a claim lost, by a step of the clock": {func(r *Record) {
			r.Losses = []Lost{{At: at(6), Worker: "w", JobID: 1, Fence: 10}}
			r.Strikes = []Strike{{Kind: "clock back", Who: "w", From: at(5), To: at(7)}}
		}, []string{leaseLost}},
		"a claim lost, long after a fault": {func(r *Record) {
			r.Losses, r.Strikes = []Lost{{At: at(60), Worker: "w", JobID: 1, Fence: 10}}, []Strike{freeze(4, 5)}
		}, []string{leaseLost}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tale()
			test.change(&r)
			found := judge(r)
			var classes []string
			for _, v := range found {
				classes = append(classes, v.Class)
			}
			if diff := cmp.Diff(test.want, classes); diff != "" {
				t.Errorf("classes (-want +found):\n%s%v", diff, found)
			}
		})
	}
}

// blockTale has the first job die in a queue whose lanes wait for a person then.
func blockTale(r *Record) {
	lane := Lane{blockQueue, "l"}
	for i := range r.Transactions {
		r.Transactions[i].Jobs = slices.Clone(r.Transactions[i].Jobs)
		r.Transactions[i].Jobs[0].Lane, r.Runs[i].Lane, r.Effects[i].Lane = lane, lane, lane
	}
	r.Transactions[0].Jobs[0].Dies = true
	r.Runs[0].Outcome, r.Final[0].State = dead, string(dead)
}

// TestWitnessRefusesStaleFences: what the judge relies on.
func TestWitnessRefusesStaleFences(t *testing.T) {
	t.Parallel()
	w := newWitness(time.Second)
	var runs [3]Started
	for i, fence := range []int64{7, 9, 8} {
		run := ran(jobA, fence, 0, 0, running)
		if i == 2 {
			run.Lane.Key = "another"
		}
		if err := w.Start(run, &runs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		run  int
		want bool
	}{{0, true}, {0, true}, {1, true}, {0, false}, {1, true}, {2, true}} {
		var accepted bool
		if err := w.Write(runs[step.run].Run, &accepted); err != nil || accepted != step.want {
			t.Errorf("run %d: accepted %v, want %v", step.run, accepted, step.want)
		}
	}
	if found := judge(Record{Effects: w.testimony().Effects}); len(found) > 0 {
		t.Errorf("the judge does not agree: %v", found)
	}
}

// TestWitnessCountsWhatIsPending, in whichever order it hears of the two ends.
func TestWitnessCountsWhatIsPending(t *testing.T) {
	t.Parallel()
	w := newWitness(time.Second)
	expect := func(want int) {
		t.Helper()
		if got, _ := w.progress(); got != want {
			t.Errorf("%d jobs are pending, want %d", got, want)
		}
	}
	var n int
	for _, id := range []string{"a", "b"} {
		_ = w.Begin(id, &n)
		_ = w.Commit(Committing{id, []Job{map[string]Job{"a": jobA, "b": jobB}[id]}}, &n)
	}
	end := func(job Job, o Outcome) {
		var s Started
		_ = w.Start(ran(job, 1, 0, 0, running), &s)
		_ = w.End(Ending{Run: s.Run, Outcome: o}, &n)
	}
	_ = w.Settle(Settled{ID: "a", Fate: committed}, &n)
	expect(1)
	end(jobA, failed)
	expect(1)
	end(jobA, completed)
	end(jobA, completed)
	expect(0)
	end(jobB, completed)
	_ = w.Settle(Settled{ID: "b", Fate: committed}, &n)
	expect(0)
}
