package dispatcher

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// conns are a dispatcher's connections to the database.
type conns struct {
	listen    func(context.Context) (*pgx.Conn, error)
	heartbeat *sessions
	control   *sessions
	tx        *sessions
}

// connectTimeout bounds the opening of a connection, if the pool's own
// configuration does not bound it more tightly.
const connectTimeout = 5 * time.Second

// newConns derives connections from the pool's configuration: same server, same
// hooks (BeforeConnect, AfterConnect), other application_name.
func newConns(pool *pgxpool.Config, listen *pgx.ConnConfig, control, txs int) *conns {
	c := &conns{
		listen:    dial(pool, "listener"),
		heartbeat: newSessions(heartbeatConns, dial(pool, "heartbeat")),
		control:   newSessions(control, dial(pool, "control")),
		tx:        newSessions(txs, dial(pool, "tx")),
	}
	if listen != nil {
		c.listen = dial(&pgxpool.Config{ConnConfig: listen}, "listener")
	}
	return c
}

func (c *conns) close() {
	c.heartbeat.close()
	c.control.close()
	c.tx.close()
}

// dial makes a function that opens connections for a role of ours.
func dial(pool *pgxpool.Config, role string) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		cfg := pool.ConnConfig.Copy()
		cfg.RuntimeParams["application_name"] = appName(cfg.RuntimeParams["application_name"], role)
		if cfg.ConnectTimeout <= 0 || cfg.ConnectTimeout > connectTimeout {
			cfg.ConnectTimeout = connectTimeout
		}
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, cfg); err != nil {
				return nil, err
			}
		}
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil || pool.AfterConnect == nil {
			return conn, err
		}
		if err := pool.AfterConnect(ctx, conn); err != nil {
			_ = conn.Close(ctx)
			return nil, err
		}
		return conn, nil
	}
}

// appName tells in pg_stat_activity whose connection it is and what for. The
// server cuts at 63 bytes, so the user's part gives way.
func appName(user, role string) string {
	suffix := "lockstep " + role
	if user == "" {
		return suffix
	}
	if most := 63 - len(suffix) - 1; len(user) > most {
		user = strings.ToValidUTF8(user[:most], "")
	}
	return user + " " + suffix
}
