package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/cmd/lockstep/sidecar"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// The exit codes, as doc.go, the help and docs/errors.md list them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
	exitCut         = 5
	exitInterrupted = 130
)

// usageError is a command line, variable or file name that can't be followed.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usage(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// refusedError is a job that was refused, and where it stands.
type refusedError struct {
	where string // a flag or "file:line"
	err   error
}

func (e *refusedError) Error() string { return e.where + ": " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// exitCode says how the process ends after err.
func exitCode(ctx context.Context, err error) int {
	var (
		wrong   *usageError
		refused *refusedError
		connect *pgconn.ConnectError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong), errors.Is(err, migrations.ErrSchemaName):
		return exitUsage
	case errors.Is(err, sidecar.ErrCut):
		return exitCut
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &refused), errors.Is(err, store.ErrInvalid):
		return exitRefused
	case errors.As(err, &connect):
		return exitUnreachable
	default:
		return exitFailure
	}
}

// complain prints an error for a person, without passwords. Whose it is it says once.
func complain(stderr io.Writer, err error) {
	fmt.Fprintln(stderr, "lockstep: "+strings.TrimPrefix(redact(lastAttempt(err)), "lockstep: "))
}

// lastAttempt is err's text, in which of all attempts to connect only the last
// is told: pgx tries each address with TLS and without, and lists them all.
func lastAttempt(err error) string {
	var (
		connect  *pgconn.ConnectError
		attempts interface{ Unwrap() []error }
	)
	if !errors.As(err, &connect) || !errors.As(connect.Unwrap(), &attempts) {
		return err.Error()
	}
	all := attempts.Unwrap()
	short := fmt.Sprintf("failed to connect as user=%s to database=%s: %v", connect.Config.User, connect.Config.Database, all[len(all)-1])
	return strings.Replace(err.Error(), connect.Error(), short, 1)
}

// counted is n of a noun, as people say it.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
