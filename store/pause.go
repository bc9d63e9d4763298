package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Scope is what a pause covers. One of these:
//
//	Scope{Queue: q}                             a queue
//	Scope{Kind: k}, Scope{Queue: q, Kind: k}    a kind, everywhere or in a queue
//	Scope{Tenant: t}, Scope{Queue: q, Tenant: t} a tenant, everywhere or in a queue
//	Scope{Queue: q, Tenant: t, OrderingKey: k}  an ordering key; "" is no tenant
type Scope struct {
	Queue       string // up to 200 bytes; "" is every queue
	Kind        string // up to 200 bytes
	Tenant      string // up to 200 bytes
	OrderingKey string // up to 1000 bytes; needs Queue
}

// args are the scope as the functions want it: null is what it does not name.
func (s Scope) args() []any {
	args := make([]any, 4)
	for i, text := range []string{s.Queue, s.Kind, s.Tenant, s.OrderingKey} {
		if text != "" {
			args[i] = text
		}
	}
	return args
}

func (s Scope) check(more ...text) error {
	return checkTexts(append(more, text{"queue", s.Queue}, text{"kind", s.Kind}, text{"tenant", s.Tenant}, text{"ordering_key", s.OrderingKey})...)
}

// PauseNote says why something is paused, and by whom.
type PauseNote struct {
	Reason string // up to 2000 bytes
	By     string // up to 200 bytes; "" is the role of the database session
}

const pauseSQL = `select @schema@.pause(queue => $1, kind => $2, tenant => $3, ordering_key => $4, reason => $5,
	paused_by => coalesce(nullif($6::text, ''), session_user))`

// Pause stops jobs of a scope from being started: from its commit on no claim
// takes them, and a second later no handler begins. What runs, runs on. False
// if the scope was paused already: that pause stands, with its note. A
// *FieldError for what is no scope.
func (s *Store) Pause(ctx context.Context, scope Scope, note PauseNote) (fresh bool, err error) {
	if err := scope.check(text{"reason", note.Reason}, text{"paused_by", note.By}); err != nil {
		return false, err
	}
	var state string
	err = s.row(ctx, pauseSQL, append(scope.args(), note.Reason, note.By), []any{&state})
	return state == "paused", err
}

// Resumed is what Resume came to.
type Resumed struct {
	// WasPaused is false if there was no such pause.
	WasPaused bool
	// Returned counts the parked jobs that were returned to the ready line.
	Returned int
	// More says that some are left. Dispatchers return them, and so does another
	// call.
	More bool
}

const resumeSQL = `select state, returned, more from @schema@.resume(queue => $1, kind => $2, tenant => $3, ordering_key => $4)`

// Resume ends exactly the pause of this scope; what another pause covers stays
// paused. At most 1,000 parked jobs are returned by a call. ErrBusy if jobs were
// being parked, or another resume was under way, for 2 s: try again. A
// *FieldError for what is no scope.
func (s *Store) Resume(ctx context.Context, scope Scope) (Resumed, error) {
	var (
		r     Resumed
		state string
	)
	if err := scope.check(); err != nil {
		return r, err
	}
	err := s.row(ctx, resumeSQL, scope.args(), []any{&state, &r.Returned, &r.More})
	if err == nil && state == busy {
		err = ErrBusy
	}
	r.WasPaused = state == "resumed"
	return r, err
}

// Pause is a pause that stands.
type Pause struct {
	Scope
	PauseNote
	At time.Time // by the database's clock
}

const pausesSQL = `select coalesce(queue, ''), coalesce(kind, ''), coalesce(tenant, ''), coalesce(ordering_key, ''),
	reason, paused_by, paused_at from @schema@.pauses order by paused_at, scope, queue, kind, tenant, ordering_key`

// Pauses are the pauses that stand, the oldest first.
func (s *Store) Pauses(ctx context.Context) ([]Pause, error) {
	return collect(ctx, s, pausesSQL, func(row pgx.CollectableRow) (p Pause, err error) {
		err = row.Scan(&p.Queue, &p.Kind, &p.Tenant, &p.OrderingKey, &p.Reason, &p.By, &p.At)
		return p, err
	})
}

// Paused are those of the jobs that a pause covers now: they are not to be
// started.
func (s *Store) Paused(ctx context.Context, ids ...int64) ([]int64, error) {
	var paused []int64
	return paused, s.row(ctx, `select @schema@.paused(ids => $1)`, []any{ids}, []any{&paused})
}

// Unparked is what one go of Unpark did.
type Unparked struct {
	Returned int
	More     bool // call again
}

// Unpark returns up to limit parked jobs (at most 1,000) that no pause covers to
// the ready line: what a resume has left. Any dispatcher may call it at any time.
// One runs at a time; the others answer at once that nothing is to do.
func (s *Store) Unpark(ctx context.Context, limit int) (Unparked, error) {
	var u Unparked
	return u, s.row(ctx, `select returned, more from @schema@.unpark(max => $1)`, []any{limit}, []any{&u.Returned, &u.More})
}
