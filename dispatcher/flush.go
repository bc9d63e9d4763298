package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// report is an outcome on its way into the database.
type report struct {
	attempt *attempt
	store.Finish
	at       time.Time // not to be sent before
	pause    doubling  // between times it is sent
	alone    bool      // the server refused a set that held it
	recorded bool      // only its lane has still to go on

	// taker is the slot that waits for the lane's next job. It gets one value;
	// nil here once it has, or if no slot waits.
	taker chan<- *attempt
}

// flush sends a batch, and returns the reports that must be sent again.
func (f *finisher) flush(b batch) (again []*report) {
	s := f.shift
	args := store.FinishArgs{Worker: s.worker, Reports: b.finishes(), Lease: s.cfg.Lease}
	if b.take && !s.stopping() {
		var held int
		args.Take, held = b.asker.takeable(b.keyed)
		defer s.tx.giveBack(held)
	}
	sent := time.Now()
	answers, err := s.finish(args)
	if err != nil {
		f.failed(b.reports, err)
		return b.reports
	}
	f.succeeded(time.Since(sent))
	for _, r := range b.reports {
		answer := answers[r.ID]
		r.handOver(answer.Next, sent)
		if !r.answered(answer.State) {
			again = append(again, r)
		}
	}
	if !s.hears() {
		s.lookAfter(b.reports)
	}
	return again
}

// lookAfter does what the signals of a flush would do, while none are heard:
// lanes went on, and jobs were set aside until they fall due.
func (s *shift) lookAfter(reports []*report) {
	for _, r := range reports {
		r.attempt.queue.bell.ring(ByTimer)
	}
	s.due.bell.ring(ByTimer)
}

// handOver gives the slot that waits the lane's next job, if there is one.
func (r *report) handOver(job *store.Job, sent time.Time) {
	if r.taker == nil {
		return
	}
	var next *attempt
	if job != nil {
		next = r.attempt.shift.newAttempt(r.attempt.queue, *job, sent)
	}
	r.taker <- next
	r.taker = nil
}

// answered does what an answer asks for; false if the report must be sent
// again, a little later each time.
func (r *report) answered(state store.FinishState) (through bool) {
	switch state {
	case store.FinishDone, store.FinishAlready:
		r.record(string(state))
	case store.FinishLost:
		r.attempt.tell(Event{Type: Ineffective, Outcome: r.Outcome, Reason: "the claim was lost"})
	case store.FinishPending:
		r.record(string(state))
		return r.later(250 * time.Millisecond)
	default: // busy
		return r.later(250 * time.Millisecond)
	}
	r.close()
	return true
}

// record notes that the outcome is in the database.
func (r *report) record(state string) {
	if r.recorded {
		return
	}
	r.recorded = true
	r.attempt.shift.leases.drop(r.attempt)
	r.attempt.queue.countWaiting(-1)
	r.attempt.tell(Event{Type: Recorded, Outcome: r.Outcome, Reason: state})
}

// later sets when the report may be sent again; at most so much later.
func (r *report) later(most time.Duration) (through bool) {
	r.pause.first, r.pause.most = time.Millisecond, most
	r.at = time.Now().Add(r.pause.next())
	return false
}

// close ends the attempt, about which nothing is left to report.
func (r *report) close() {
	if !r.recorded {
		r.attempt.queue.countWaiting(-1)
	}
	r.attempt.close()
}

// failed paces the next try, and lets the slots go: they do not wait for a
// database that fails. A set that the server refuses is sent one by one, so
// that a report it can't take holds up no other; one that took too long, by half,
// else none might ever get through a slow network.
func (f *finisher) failed(reports []*report, err error) {
	f.shift.trouble(f.shift.writes, "finish", err)
	refused := !unavailable(err)
	for _, r := range reports {
		r.handOver(nil, time.Time{})
		if refused && r.alone {
			r.later(10 * time.Second)
		}
		r.alone = r.alone || refused
	}
	if refused {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.waiting {
		r.handOver(nil, time.Time{})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.portion.tooMuch(len(reports))
	}
	f.failing = true
	f.retryAt = time.Now().Add(f.retry.NextBackOff())
}

// succeeded ends the pause, too, that a flush which failed meanwhile has begun, and
// lets the next one be larger, if there is time for that.
func (f *finisher) succeeded(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.portion.done(took, f.shift.callTimeout)
	f.failing, f.retryAt = false, time.Time{}
	f.retry.Reset()
}
