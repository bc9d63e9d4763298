package dispatcher

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	codeReadOnly      = "25006" // read_only_sql_transaction: a standby, or an old primary
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeInvalidValue  = "22023" // invalid_parameter_value
	codeAborted       = "25P02" // in_failed_sql_transaction
	codeNoSchema      = "3F000"
	codeNoFunction    = "42883"
	codeNoPrivilege   = "42501"
)

// gone are the SQLSTATEs of a server that can't be worked with for now: going
// away, starting, full, in recovery, or not to be written to.
var gone = []string{
	codeReadOnly,
	"57P01", // admin_shutdown
	"57P02", // crash_shutdown
	"57P03", // cannot_connect_now
	"57P05", // idle_session_timeout
	"53300", // too_many_connections
	"25P03", // idle_in_transaction_session_timeout
}

// unavailable reports whether err says that the server, or the way to it, is at
// fault and not the statement. No answer in time is such an error; a connection
// on which it happened is not used again.
func unavailable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	return strings.HasPrefix(pg.Code, "08") || slices.Contains(gone, pg.Code) || store.NotifyQueueFull(err)
}

// coded reports whether the server answered with one of these SQLSTATEs.
func coded(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// answered reports whether the server refused a statement and lived on, so that
// its transaction is certainly not committed.
func answered(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized != "FATAL" && pg.SeverityUnlocalized != "PANIC"
}
