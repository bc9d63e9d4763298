package listener

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer runs one statement: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Execer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// Notify sends payload to channel over db, which is what Config.Probe is for.
// In a transaction it is sent by the commit. It works through any pooler.
func Notify(ctx context.Context, db Execer, channel, payload string) error {
	_, err := db.Exec(ctx, "select pg_notify($1, $2)", pgx.QueryExecModeExec, channel, payload)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// probeByConnecting is Probe for those who have no other connection.
func (l *Listener) probeByConnecting(ctx context.Context, payload string) error {
	conn, err := l.cfg.Connect(ctx)
	if err != nil {
		return err
	}
	defer l.closed(conn)
	defer conn.Close(ctx)
	return Notify(ctx, conn, l.cfg.Channel, payload)
}
