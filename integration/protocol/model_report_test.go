package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// outcome is a random way for an attempt to end.
func (a *actor) outcome(job store.Job) store.Finish {
	f := store.Finish{Claim: claimOf(job), Outcome: store.Completed}
	if a.calm {
		return f
	}
	delay := time.Duration(a.rand.IntN(100)) * time.Millisecond
	switch n := a.rand.IntN(100); {
	case n < 12:
		f.Outcome, f.Error, f.Delay = store.Failed, "failed", &delay
	case n < 16:
		f.Outcome, f.Error = store.Dead, "died"
	case n < 20:
		f.Outcome, f.Delay = store.Snoozed, &delay
	case n < 24:
		f.Outcome = store.Released
	case n < 26:
		f.Outcome = store.Cancelled
	}
	return f
}

// report tells how attempts ended until each report is answered for good. A
// pending one is sometimes left to due(). Jobs taken over are reported too.
func (a *actor) report(lives []*life) error {
	reports := make(map[*life]store.Finish, len(lives))
	for _, l := range lives {
		reports[l] = a.outcome(l.job)
	}
	for len(reports) > 0 {
		args := store.FinishArgs{Worker: a.worker, Lease: a.lease}
		if a.percent(50) {
			args.Take = []string{"k"}
		}
		sent := time.Now()
		for l, report := range reports {
			if l.end.IsZero() {
				l.end = sent
			}
			args.Reports = append(args.Reports, report)
		}
		answers, err := store.New(a.conn).Finish(a.ctx, args)
		if err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		for _, l := range slices.Collect(maps.Keys(reports)) {
			answer := answers[l.job.ID]
			a.count("finish: " + string(answer.State))
			if answer.Next != nil {
				next := a.begin(*answer.Next, sent, a.lease)
				reports[next] = a.outcome(next.job)
			}
			if a.settled(l, answer.State) {
				delete(reports, l)
			}
		}
	}
	return nil
}

// settled tells whether a report needs no repetition.
func (a *actor) settled(l *life, state store.FinishState) bool {
	switch state {
	case store.FinishDone:
		return true
	case store.FinishLost:
		l.lost = time.Now().Before(l.lease)
		return true
	case store.FinishAlready:
		l.already = !l.recorded && time.Now().Before(l.lease)
		return true
	case store.FinishPending:
		l.recorded = true
		return a.percent(30)
	case store.FinishBusy:
		return false
	default:
		a.problem("finish of job %d answers %q", l.job.ID, state)
		return true
	}
}
