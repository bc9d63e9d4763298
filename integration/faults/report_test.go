package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// tally is what a kind of fault did.
type tally struct {
	struck   int
	standing []time.Duration // from its end to the next start of a handler
	away     []time.Duration // from its end to the next work of its victim, or of who took its place
	cut      int             // runs that ended with their context, or with their process
	doubtful int             // transactions that came to be in doubt
	lost     int             // claims
}

// tallies counts, for each kind, what happened from the beginning of a strike to
// that of the next one.
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
		t.struck++
		t.count(r, func(m Moment) bool { return s.From <= m && m < until })
		if next := nextStart(r, s.To, ""); next != never {
			t.standing = append(t.standing, time.Duration(next-s.To))
		}
		if back := s.back(r); back != never {
			t.away = append(t.away, time.Duration(back-s.To))
		}
	}
	return all
}

func (t *tally) count(r Record, during func(Moment) bool) {
	for _, run := range r.Runs {
		death, died := r.Deaths[run.Worker]
		if run.Outcome == stopped && during(run.End) || run.End == never && died && during(death) {
			t.cut++
		}
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

// nextStart is when a handler starts next: anywhere, or in the process of a place.
func nextStart(r Record, after Moment, place string) Moment {
	next := never
	for _, run := range r.Runs {
		if run.Start >= after && strings.HasPrefix(run.Worker, place) {
			next = min(next, run.Start)
		}
	}
	return next
}

// back is when the strike's victim, or who took its place, is at work again: when
// a worker starts a handler, when a producer has a commit answered.
func (s Strike) back(r Record) Moment {
	place := s.Who[:strings.LastIndex(s.Who, ".")+1] // its process's number cut off
	if !strings.HasPrefix(s.Who, producerRole) {
		return nextStart(r, s.To, place)
	}
	next := never
	for _, tx := range r.Transactions {
		if tx.Fate == committed && tx.Sent >= s.To && strings.HasPrefix(tx.ID, place) {
			next = min(next, tx.Ended)
		}
	}
	return next
}

// report prints what was struck and what came of it, and fails if a kind was
// never struck.
func (s *stage) report(w io.Writer, r Record, chosen []kind) {
	s.t.Helper()
	all := tallies(r)
	fmt.Fprintf(w, "\nfaults, -faults.seed=%d, leases of %v\n\n", s.seed, s.lease)
	const line = "%-23s %6s %8s %7s %8s %15s %15s\n"
	fmt.Fprintf(w, line, "fault", "struck", "runs", "claims", "commits", "jobs stood", "its victim was")
	fmt.Fprintf(w, line, "", "", "cut off", "lost", "in doubt", "still for", "away for")
	for _, k := range chosen {
		if err := s.impossible[k.name]; err != nil {
			fmt.Fprintf(w, "%-23s not possible here: %v\n", k.name, err)
			continue
		}
		t := all[k.name]
		if t == nil {
			s.t.Errorf("%s was never struck", k.name)
			continue
		}
		fmt.Fprintf(w, line, k.name, fmt.Sprint(t.struck), fmt.Sprint(t.cut), fmt.Sprint(t.lost), fmt.Sprint(t.doubtful), spread(t.standing), spread(t.away))
	}
	fmt.Fprintln(w, "\ntimes from the end of the fault: median, most, in seconds")
	newAccount(r).print(w)
}

// spread is the median and the greatest of times, in seconds.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "-"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.2f, %.2f", times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
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
