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
	pooler    *pooler // what is known of one in front of the database
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
	c := &conns{pooler: &pooler{}}
	c.listen = dial(pool, "listener", openEar)
	c.heartbeat = newSessions(heartbeatConns, dial(pool, "heartbeat", c.pooler.connect))
	c.control = newSessions(control, dial(pool, "control", c.pooler.connect))
	c.tx = newSessions(txs, dial(pool, "tx", c.pooler.connect))
	if listen != nil {
		c.listen = dial(&pgxpool.Config{ConnConfig: listen}, "listener", openEar)
	}
	return c
}

func (c *conns) close() {
	c.heartbeat.close()
	c.control.close()
	c.tx.close()
}

// connector opens a connection.
type connector func(context.Context, *pgx.ConnConfig) (*pgx.Conn, error)

// openEar opens the listener's connection, whose notifications are for it alone.
func openEar(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	cfg.OnNotification = nil
	return pgx.ConnectConfig(ctx, cfg)
}

// dial makes a function that opens connections for a role of ours.
func dial(pool *pgxpool.Config, role string, connect connector) func(context.Context) (*pgx.Conn, error) {
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
		conn, err := connect(ctx, cfg)
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
