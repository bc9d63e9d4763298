package store

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// The sentinels of our own SQLSTATEs; docs/errors.md has the table. Test with
// errors.Is. The *pgconn.PgError stays reachable through errors.As.
var (
	// ErrIsolation (LS001): a state function was called outside READ COMMITTED.
	ErrIsolation = errors.New("lockstep: needs READ COMMITTED")
	// ErrInvalid (LS002): an argument is out of its range; the error is a *FieldError.
	ErrInvalid = errors.New("lockstep: invalid argument")
	// ErrClaimLost (LS003): the claim (id, fence) is no longer the caller's.
	ErrClaimLost = errors.New("lockstep: claim lost")
	// ErrLaneLocked (LS004): the lane's entry lock could not be had within its
	// timeout; the message names the lane and who holds it.
	ErrLaneLocked = errors.New("lockstep: lane locked")
	// ErrNotFound (LS005): no such job, or no such lane.
	ErrNotFound = errors.New("lockstep: not found")
	// ErrState (LS006): the job is not in a state that allows this.
	ErrState = errors.New("lockstep: not possible in this state")
	// ErrHidden (LS007): a trigger could not see its own rows, which means that
	// row-level security is forced on the table.
	ErrHidden = errors.New("lockstep: rows hidden from their own trigger")
	// ErrNotHome (LS009): this database is a copy of the one whose jobs these
	// are; see Adopt.
	ErrNotHome = errors.New("lockstep: this database is a copy")
	// ErrKeyReused (LS008): an idempotency key was given before with another
	// request; the error is a *FieldError that names the job that one made.
	ErrKeyReused = errors.New("lockstep: idempotency key reused")
)

var sentinels = map[string]error{
	"LS001": ErrIsolation,
	"LS002": ErrInvalid,
	"LS003": ErrClaimLost,
	"LS004": ErrLaneLocked,
	"LS005": ErrNotFound,
	"LS006": ErrState,
	"LS007": ErrHidden,
	"LS008": ErrKeyReused,
	"LS009": ErrNotHome,
}

// FieldError is an argument that was refused. It matches ErrInvalid, or
// ErrKeyReused for an idempotency key.
type FieldError struct {
	// Field is the argument's name as in SQL: "kind", "payload", "run_at", …
	Field string
	// Ordinal is the place of the job in a bulk call, from 1; 0 outside one.
	Ordinal int
	// Message says what was wrong and what is allowed.
	Message string

	sentinel error           // nil: ErrInvalid
	cause    *pgconn.PgError // nil: refused before the server saw it
}

// Error names the field and says what was wrong with it.
func (e *FieldError) Error() string {
	if e.Ordinal > 0 {
		return fmt.Sprintf("job %d: %s", e.Ordinal, e.Message)
	}
	return e.Message
}

// Unwrap gives the sentinel, and the server's error if it came from there.
func (e *FieldError) Unwrap() []error {
	all := []error{ErrInvalid}
	if e.sentinel != nil {
		all[0] = e.sentinel
	}
	if e.cause != nil {
		all = append(all, e.cause)
	}
	return all
}

// codeError joins a sentinel to the server's error, keeping its text.
type codeError struct {
	sentinel error
	cause    *pgconn.PgError
}

func (e *codeError) Error() string {
	text := "lockstep: " + e.cause.Message
	if e.cause.Detail != "" {
		text += " (" + e.cause.Detail + ")"
	}
	if e.cause.Hint != "" {
		text += "; " + e.cause.Hint
	}
	return text
}

func (e *codeError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// wrap maps a server error with one of our SQLSTATEs to its sentinel.
func wrap(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	sentinel, ours := sentinels[pg.Code]
	switch {
	case !ours:
		return err
	case sentinel == ErrInvalid, sentinel == ErrKeyReused:
		return &FieldError{Field: pg.ColumnName, Message: pg.Message, sentinel: sentinel, cause: pg}
	default:
		return &codeError{sentinel: sentinel, cause: pg}
	}
}
