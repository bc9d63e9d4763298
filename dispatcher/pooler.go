package dispatcher

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pooler is what is known of a pooler between us and the database. It shows by
// the number of the server's process: a pooler answers with one of its own when
// we connect, the server with the real one when it is asked.
type pooler struct{ state atomic.Int32 }

const (
	poolerUnknown int32 = iota
	poolerAbsent
	poolerPresent
)

// found reports whether there is one.
func (p *pooler) found() bool { return p.state.Load() == poolerPresent }

// connect opens a connection that works through a pooler too, if there is one.
func (p *pooler) connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := p.open(ctx, cfg)
	if err != nil || p.state.Load() != poolerUnknown {
		return conn, err
	}
	var pid int64
	if err := conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	if pid == int64(conn.PgConn().PID()) {
		p.state.Store(poolerAbsent)
		return conn, nil
	}
	p.state.Store(poolerPresent)
	_ = conn.Close(ctx)
	return p.open(ctx, cfg)
}

// open connects. A pooler in transaction mode has a session for each
// transaction, so behind one nothing can be prepared for the next; and it hands
// out what other clients' LISTEN left behind, which pgx would keep for ever.
func (p *pooler) open(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	if p.found() {
		cfg = cfg.Copy()
		cfg.RuntimeParams["datestyle"] = "ISO" // what pgx reads where an answer comes as text; poolers know the setting
		switch cfg.DefaultQueryExecMode {
		case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec:
			cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		if cfg.OnNotification == nil {
			cfg.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
		}
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// poolerAdvice is told at the start where signals would come through a pooler.
const poolerAdvice = "the database is reached through a pooler, which in transaction mode delivers no signals: " +
	"until the listener says it is connected, jobs wait for the poll; set Config.ListenURL to a direct address of the database"

// adviseOnPooler tells the administrator, once a run.
func (s *shift) adviseOnPooler() {
	if s.conns.pooler.found() && s.Dispatcher.listen == nil {
		s.cfg.Logger.Warn(poolerAdvice)
	}
}
