package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// idleGrace is how much longer than its handler's timeout a transaction may
	// be idle, before the server takes its process for frozen.
	idleGrace = 10 * time.Second
	// maxIdle is the longest that the server takes for that.
	maxIdle = math.MaxInt32 * time.Millisecond
	// commitTimeout leaves deferred triggers the time to give up on the lock of a
	// lane whose holder is idle (10 s), with a message that names it. Behind one
	// that is at work they wait longer; then the commit counts as unanswered.
	commitTimeout   = 15 * time.Second
	rollbackTimeout = 5 * time.Second
)

var (
	errReadOnly = errors.New("the database is read-only for now")
	errTxEnded  = errors.New("the handler ended its transaction by SQL: what it did may be committed, its job's completion is not")
	errTxFailed = errors.New("the handler returned nil, but a statement in its transaction had failed")
	errLent     = errors.New("the dispatcher ends this transaction: return nil to commit, an error to roll back")
)

// For the transaction alone, so that it works through any pooler: a session
// whose process is frozen, or gone without closing its socket, must not hold a
// lane for ever. An empty value leaves a setting as it is.
const guardSQL = `select current_setting('transaction_read_only') = 'on', count(set_config(name, value, true))
	from (values
		('idle_in_transaction_session_timeout', $1),
		('client_connection_check_interval', $2),
		('tcp_keepalives_idle', '10'),
		('tcp_keepalives_interval', '5'),
		('tcp_keepalives_count', '3')) as setting (name, value)
	where value <> ''`

// guard sets those, the check of the client's connection only if asked to, and
// refuses a server that can't be written to: no attempt is to be used up on it.
func (r *txRun) guard(ctx context.Context, check bool) error {
	idle := fmt.Sprint((min(r.handler.Timeout, maxIdle-idleGrace) + idleGrace).Milliseconds())
	interval := ""
	if check {
		interval = "2s"
	}
	var readOnly bool
	if err := r.tx.QueryRow(ctx, guardSQL, idle, interval).Scan(&readOnly, nil); err != nil {
		return err
	}
	if readOnly {
		return errReadOnly
	}
	return nil
}

// lent is a transaction that its borrower can't end.
type lent struct{ pgx.Tx }

func (lent) Commit(context.Context) error   { return errLent }
func (lent) Rollback(context.Context) error { return errLent }
