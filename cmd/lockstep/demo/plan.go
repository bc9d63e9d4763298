package demo

import (
	"math/rand/v2"
	"time"
)

// plan is what a job is to do: it travels as the payload.
type plan struct {
	Work  time.Duration `json:"work"`  // how long an attempt takes
	Fails int           `json:"fails"` // how many attempts fail before one succeeds
	Dies  bool          `json:"dies"`  // the attempt after those fails for good
}

// drawPlan makes most jobs short and good, some fail, and a few die.
func drawPlan(r *rand.Rand) plan {
	p := plan{Work: time.Duration(r.IntN(3000)) * time.Microsecond}
	switch n := r.IntN(100); {
	case n < 8:
		p.Fails = 1 + r.IntN(2)
	case n < 9:
		p.Dies = true
	}
	return p
}

// event is what a handler writes down.
type event string

const (
	eventStart  event = "start"
	eventDone   event = "done"   // ended well
	eventFailed event = "failed" // to be tried again
	eventDied   event = "died"   // failed for good
)

// final tells whether the job does not run again after the event.
func (e event) final() bool { return e == eventDone || e == eventDied }

// outcome is the event that an attempt ends with, the attempts counted from 1.
func (p plan) outcome(attempt int) event {
	switch {
	case attempt <= p.Fails:
		return eventFailed
	case p.Dies:
		return eventDied
	default:
		return eventDone
	}
}
