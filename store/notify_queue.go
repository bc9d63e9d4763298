package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// NotifyQueue is the server's queue of notifications. All databases of the
// server share it, and while it is full, no transaction that notifies can
// commit: no enqueue, and no finish that has a next job.
type NotifyQueue struct {
	// Usage is how full it is, 0 to 1.
	Usage float64
	// Open are the client sessions with the longest open transactions, the
	// oldest first, at most ten. The queue can't be emptied past one that
	// listens, whatever it listens to: if Usage grows, the first of these that
	// does is to blame. Which sessions listen, PostgreSQL tells nobody. Without
	// the rights of pg_read_all_stats only those of the own role are here.
	Open []OpenTransaction
}

// OpenTransaction is a session with an open transaction.
type OpenTransaction struct {
	PID         int
	Database    string
	Role        string
	Application string
	State       string        // as in pg_stat_activity: "idle in transaction", say
	Age         time.Duration // of the transaction
}

// One that is idle is just reading its notifications.
const openTransactionsSQL = `select pid, coalesce(datname, ''), coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''),
		(extract(epoch from greatest(clock_timestamp() - xact_start, '0')) * 1000000000)::bigint
	from pg_catalog.pg_stat_activity
	where xact_start is not null and state <> 'idle' and backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()
	order by xact_start, pid limit 10`

// NotifyQueue tells how full the server's queue of notifications is, and who
// may keep it from being emptied: pg_terminate_backend(pid) lets it go on.
func (s *Store) NotifyQueue(ctx context.Context) (NotifyQueue, error) {
	var q NotifyQueue
	if err := s.row(ctx, `select pg_catalog.pg_notification_queue_usage()`, nil, []any{&q.Usage}); err != nil {
		return q, err
	}
	var err error
	q.Open, err = collect(ctx, s, openTransactionsSQL, pgx.RowToStructByPos[OpenTransaction])
	return q, err
}

// NotifyQueueFull reports whether err is the server's refusal to commit while
// its queue of notifications is full. It is temporary: the transaction was
// rolled back and can be tried again. Store.NotifyQueue tells who is to blame.
func NotifyQueueFull(err error) bool {
	var pg *pgconn.PgError
	// program_limit_exceeded has other causes too; this is the one of NOTIFY.
	return errors.As(err, &pg) && pg.Code == "54000" && pg.File == "async.c"
}
