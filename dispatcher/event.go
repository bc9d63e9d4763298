package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// EventType is what happened.
type EventType string

// The events. Those of a job name it; the others leave those fields empty.
const (
	Looked      EventType = "looked"         // at Queue for Wake: Jobs were claimed, Took long
	Started     EventType = "started"        // a handler begins
	Repeated    EventType = "repeated"       // a transactional handler runs again within its attempt
	Ended       EventType = "ended"          // an attempt ended with Outcome; Ran long
	Recorded    EventType = "recorded"       // Outcome is in the database
	LeaseLost   EventType = "lease lost"     // the claim is gone; the handler's context has ended
	Ineffective EventType = "ineffective"    // Outcome came too late, and changed nothing
	Unrecorded  EventType = "unrecorded"     // the dispatcher ended before it could record Outcome
	CancelAsked EventType = "cancel asked"   // the handler's context has ended with ErrCancelled
	Stuck       EventType = "stuck"          // a handler goes on after its context ended: its slot is lost for now
	Unstuck     EventType = "unstuck"        // it returned
	Holder      EventType = "stuck holder"   // a session held a run lock too long; Reason tells what came of it
	Trouble     EventType = "trouble"        // the database did not do what was asked: Reason, Err
	Wakeless    EventType = "lost signal"    // Jobs could run for a while, and nothing told of them
	Listening   EventType = "listener state" // Reason is the listener's mode
)

// Event is something that happened in a Dispatcher. It never holds a payload.
type Event struct {
	Type    EventType
	Queue   string
	Kind    string
	Handler string // as it was registered: Kind, or the pattern that Kind meets
	JobID   int64
	Fence   int64
	Attempt int
	Outcome store.Outcome
	Reason  string
	Err     error
	Wake    Reason        // of Looked
	Jobs    int           // of Looked and Wakeless
	Ran     time.Duration // of Ended, Unstuck: since the handler began
	Took    time.Duration // of Looked: the database's answer; of Started: since the claim was sent
	Waited  time.Duration // of Started: from when the job was due until its claim, by the database's clock

	again bool // the log said so a moment ago
}

// tell fills in the job, hands the event to OnEvent and writes its log line. The
// database makes a job dead whose last attempt has failed.
func (a *attempt) tell(e Event) {
	if e.Outcome == store.Failed && a.job.Attempt >= a.job.MaxAttempts {
		e.Outcome = store.Dead
	}
	e.Handler = a.handler.kind
	e.Queue, e.Kind, e.JobID, e.Fence, e.Attempt = a.job.Queue, a.job.Kind, a.job.ID, a.job.Fence, a.job.Attempt
	a.shift.tell(e)
}

func (d *Dispatcher) tell(e Event) {
	d.cfg.OnEvent(e)
	level := e.level()
	if !d.cfg.Logger.Enabled(context.Background(), level) {
		return
	}
	d.cfg.Logger.LogAttrs(context.Background(), level, string(e.Type), e.attrs()...)
}

// level is how loud the event's log line is.
func (e Event) level() slog.Level {
	switch {
	case e.again:
		return slog.LevelDebug
	case e.Type == Ended:
		return endLevels[e.Outcome]
	}
	switch e.Type {
	case LeaseLost, Ineffective, Stuck, Holder, Trouble, Wakeless:
		return slog.LevelWarn
	case Unrecorded:
		return slog.LevelError
	case Repeated, CancelAsked, Unstuck:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

var endLevels = map[store.Outcome]slog.Level{
	store.Completed: slog.LevelDebug,
	store.Snoozed:   slog.LevelInfo,
	store.Released:  slog.LevelInfo,
	store.Cancelled: slog.LevelInfo,
	store.Failed:    slog.LevelWarn,
	store.Dead:      slog.LevelError,
}

// attrs are the fields that say something.
func (e Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	add := func(said bool, attr slog.Attr) {
		if said {
			attrs = append(attrs, attr)
		}
	}
	add(e.JobID != 0, slog.Int64("job", e.JobID))
	add(e.Queue != "", slog.String("queue", e.Queue))
	add(e.Kind != "", slog.String("kind", e.Kind))
	add(e.Attempt != 0, slog.Int("attempt", e.Attempt))
	add(e.Fence != 0, slog.Int64("fence", e.Fence))
	add(e.Outcome != "", slog.String("outcome", string(e.Outcome)))
	add(e.Reason != "", slog.String("reason", e.Reason))
	add(e.Type == Looked, slog.String("wake", e.Wake.String()))
	add(e.Jobs != 0, slog.Int("jobs", e.Jobs))
	add(e.Ran != 0, slog.Duration("ran", e.Ran))
	add(e.Took != 0, slog.Duration("took", e.Took))
	if e.Err != nil {
		attrs = append(attrs, errorAttr(e.Err))
	}
	return attrs
}

// errorAttr is an error for the log. One whose text may hold what a log must
// not says how it is to be logged; if it panics over that, the log says so.
func errorAttr(err error) slog.Attr {
	var discreet slog.LogValuer
	if errors.As(err, &discreet) {
		return slog.Attr{Key: "error", Value: slog.AnyValue(discreet).Resolve()}
	}
	return slog.String("error", err.Error())
}
