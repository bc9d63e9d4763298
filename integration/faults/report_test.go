package faults

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// tally is what a kind of fault did.
type tally struct {
	struck   int
	standing []time.Duration // from its end to the next start of a handler
	cut      int             // runs that ended with their context, or with their process
	doubtful int             // transactions that came to be in doubt
	lost     int             // claims
}

// tallies counts, for each kind, what happened from the beginning of a strike to that
// of the next one.
func tallies(r Record) map[string]*tally {
	all := map[string]*tally{}
	for i, s := range r.Strikes {
		t := all[s.Kind]
		if t == nil {
			t = &tally{}
			all[s.Kind] = t
		}
		until := never
		if i+1 < len(r.Strikes) {
			until = r.Strikes[i+1].From
		}
		during := func(m Moment) bool { return s.From <= m && m < until }
		t.struck++
		next := never
		for _, run := range r.Runs {
			if run.Start >= s.To {
				next = min(next, run.Start)
			}
			death, died := r.Deaths[run.Worker]
			if run.Outcome == stopped && during(run.End) || run.End == never && died && during(death) {
				t.cut++
			}
		}
		if next != never {
			t.standing = append(t.standing, time.Duration(next-s.To))
		}
		for _, tx := range r.Transactions {
			if tx.Fate == doubtful && during(tx.Sent) {
				t.doubtful++
			}
		}
		for _, l := range r.Losses {
			if during(l.At) {
				t.lost++
			}
		}
	}
	return all
}

// report prints what was struck and what came of it, and fails if a kind was
// never struck.
func (s *stage) report(w io.Writer, r Record, chosen []kind) {
	s.t.Helper()
	all := tallies(r)
	fmt.Fprintf(w, "\nfaults, -faults.seed=%d, leases of %v\n\n", s.seed, s.lease)
	fmt.Fprintf(w, "%-24s %6s %8s %8s %9s %11s %11s\n", "fault", "struck", "cut off", "claims", "commits", "stood still", "stood still")
	fmt.Fprintf(w, "%-24s %6s %8s %8s %9s %11s %11s\n", "", "", "runs", "lost", "in doubt", "median", "most")
	for _, k := range chosen {
		if err := s.impossible[k.name]; err != nil {
			fmt.Fprintf(w, "%-24s not possible here: %v\n", k.name, err)
			continue
		}
		t := all[k.name]
		if t == nil {
			s.t.Errorf("%s was never struck", k.name)
			continue
		}
		slices.Sort(t.standing)
		middle, most := "-", "-"
		if n := len(t.standing); n > 0 {
			middle, most = t.standing[n/2].Round(time.Millisecond).String(), t.standing[n-1].Round(time.Millisecond).String()
		}
		fmt.Fprintf(w, "%-24s %6d %8d %8d %9d %11s %11s\n", k.name, t.struck, t.cut, t.lost, t.doubtful, middle, most)
	}
	newAccount(r).print(w)
}

// account is the run in numbers.
type account struct {
	transactions             map[Fate]int
	happened                 int // transactions in doubt that were committed after all
	jobs, keyed, inTx, lanes int
	scheduled                int
	runs                     int
	outcomes                 map[Outcome]int
	effects, refused         int
	ends                     map[string]int
}

func newAccount(r Record) account {
	a := account{transactions: map[Fate]int{}, outcomes: map[Outcome]int{}, ends: map[string]int{}, runs: len(r.Runs)}
	there := map[string]bool{}
	for _, f := range r.Final {
		there[f.Marker] = true
		a.ends[f.State]++
	}
	lanes := map[Lane]bool{}
	for _, t := range r.Transactions {
		a.transactions[t.Fate]++
		if t.Fate == doubtful && there[t.Jobs[0].Marker] {
			a.happened++
		}
		for _, job := range t.Jobs {
			if !there[job.Marker] {
				continue
			}
			a.jobs++
			if job.keyed() {
				a.keyed++
				lanes[job.Lane] = true
			}
			if job.InTx {
				a.inTx++
			}
			if job.Delay > 0 {
				a.scheduled++
			}
		}
	}
	a.lanes = len(lanes)
	for _, run := range r.Runs {
		a.outcomes[run.Outcome]++
	}
	for _, e := range r.Effects {
		if e.Accepted {
			a.effects++
		} else {
			a.refused++
		}
	}
	return a
}

func (a account) print(w io.Writer) {
	fmt.Fprintf(w, "\ntransactions  %d committed, %d rolled back, %d in doubt: %d of these took place, %d did not; %d never came to their COMMIT\n",
		a.transactions[committed], a.transactions[rolledBack], a.transactions[doubtful], a.happened, a.transactions[doubtful]-a.happened, a.transactions[open])
	fmt.Fprintf(w, "jobs          %d: %d with a key, in %d lanes; %d transactional, %d scheduled ahead\n", a.jobs, a.keyed, a.lanes, a.inTx, a.scheduled)
	fmt.Fprintf(w, "handlers ran  %d times: %d completed, %d failed, %d snoozed, %d died as planned; %d were stopped, %d went with their process\n",
		a.runs, a.outcomes[completed], a.outcomes[failed], a.outcomes[snoozed], a.outcomes[dead], a.outcomes[stopped], a.outcomes[running])
	fmt.Fprintf(w, "effects       %d outside, behind a fence; %d of stale attempts, refused\n", a.effects, a.refused)
	fmt.Fprintf(w, "on record     %d completed, %d dead, %d neither\n", a.ends[string(completed)], a.ends[string(dead)], a.ends["live"])
}
