package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
)

// cluster is a server and its synchronous standby, behind addresses that stay
// the same whoever of the two answers there: every process has one of its own,
// so that its way can be broken alone.
type cluster struct {
	t     testing.TB
	disks *disks

	mu      sync.Mutex
	primary *postgres.Server
	standby *postgres.Server
	proxies []*faultproxy.Proxy

	rebuild sync.WaitGroup // of a standby
	broken  error          // the rebuild that failed
}

// patience is how long the harness waits for what must happen.
const patience = 2 * time.Minute

func (c *cluster) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func newCluster(t testing.TB, setUp string) *cluster {
	t.Helper()
	c := &cluster{t: t, disks: newDisks(t)}
	ctx, cancel := c.context()
	defer cancel()
	dir, err := c.disks.folder()
	if err != nil {
		t.Fatal(err)
	}
	c.primary, err = postgres.Start(ctx, postgres.Config{Dir: dir, Settings: map[string]string{
		"shared_buffers": "64MB",
		"min_wal_size":   "32MB",
		"max_wal_size":   "128MB",
		"wal_keep_size":  "64MB", // what a standby misses while it is copied
	}})
	if err != nil {
		t.Fatal(errors.Join(err, c.disks.remove(dir)))
	}
	t.Cleanup(c.close)
	c.with(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := migrations.Up(ctx, conn, migrations.Config{}); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, setUp)
		return err
	})
	if err := c.follow(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) close() {
	c.rebuild.Wait()
	for _, proxy := range c.proxies {
		_ = proxy.Close()
	}
	for _, server := range []*postgres.Server{c.standby, c.primary} {
		if server != nil {
			c.remove(server)
		}
	}
}

func (c *cluster) remove(server *postgres.Server) {
	server.Crash() // what it would write is removed next
	if err := c.disks.remove(server.Dir()); err != nil {
		c.t.Errorf("removing a server: %v", err)
	}
}

// way is a new address for one process.
func (c *cluster) way() (proxy *faultproxy.Proxy, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	proxy, err := faultproxy.Start(address(c.primary))
	if err != nil {
		c.t.Fatal(err)
	}
	c.proxies = append(c.proxies, proxy)
	return proxy, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", proxy.Port())
}

func address(server *postgres.Server) string {
	return net.JoinHostPort(server.Host(), fmt.Sprint(server.Port()))
}

// connect opens a connection to the primary, around the proxies.
func (c *cluster) connect(ctx context.Context) (*pgx.Conn, error) {
	c.mu.Lock()
	url := c.primary.URL("postgres")
	c.mu.Unlock()
	return pgx.Connect(ctx, url)
}

// with does something on the primary.
func (c *cluster) with(do func(context.Context, *pgx.Conn) error) {
	c.t.Helper()
	ctx, cancel := c.context()
	defer cancel()
	conn, err := c.connect(ctx)
	if err == nil {
		err = do(ctx, conn)
		_ = conn.Close(context.Background())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// follow makes a standby for the primary, and has commits wait for it.
func (c *cluster) follow() error {
	ctx, cancel := c.context()
	defer cancel()
	dir, err := c.disks.folder()
	if err != nil {
		return err
	}
	standby, err := c.primary.Standby(ctx, postgres.Config{Dir: dir})
	if err != nil {
		return errors.Join(err, c.disks.remove(dir))
	}
	c.mu.Lock()
	c.standby = standby
	c.mu.Unlock()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return awaitSync(ctx, conn)
}

// awaitSync returns when commits wait for the standby.
func awaitSync(ctx context.Context, conn *pgx.Conn) error {
	for {
		var synchronous bool
		err := conn.QueryRow(ctx, "select exists (select from pg_stat_replication where sync_state = 'sync' and state = 'streaming')").Scan(&synchronous)
		if err != nil || synchronous {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// whole returns when the primary works and has its standby.
func (c *cluster) whole() error {
	c.rebuild.Wait()
	if c.broken != nil {
		return fmt.Errorf("no new standby: %w", c.broken)
	}
	ctx, cancel := c.context()
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return awaitSync(ctx, conn)
}

// startAgain returns when the primary answers, whatever state it was left in.
func (c *cluster) startAgain() error {
	ctx, cancel := c.context()
	defer cancel()
	for {
		err := c.primary.StartAgain(ctx)
		if err == nil {
			var conn *pgx.Conn
			if conn, err = c.connect(ctx); err == nil {
				return conn.Close(ctx)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server does not come up again: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// failOver promotes the standby in the place of a primary that is down, and
// begins to make a new standby.
func (c *cluster) failOver() error {
	ctx, cancel := c.context()
	defer cancel()
	if err := c.standby.Promote(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	old := c.primary
	c.primary, c.standby = c.standby, nil
	for _, proxy := range c.proxies {
		proxy.LeadTo(address(c.primary))
		proxy.Reset()
	}
	c.mu.Unlock()
	c.rebuild.Go(func() {
		c.remove(old)
		c.broken = c.follow()
	})
	return nil
}

// feelsFull returns once the primary has said that its disk is full, or has gone
// down with it: where a table grows, or, which takes the server down, where its
// log does, if it can.
func (c *cluster) feelsFull(inLog bool) error {
	ctx, cancel := c.context()
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return nil // down already
	}
	defer conn.Close(context.Background())
	for range 100 { // the log has room of its own for a while
		if !inLog {
			break
		}
		if _, err := conn.Exec(ctx, "select pg_switch_wal() from (select pg_current_xact_id()) x"); err != nil {
			return full(err)
		}
	}
	// A log whose old parts are used again as fast as it grows never gets full.
	_, err = conn.Exec(ctx, "create temp table filler as select md5(n::text) from generate_series(1, 30000000) n")
	return full(err)
}

// full is nil for an error that says that there is no room, or no server.
func full(err error) error {
	const diskFull = "53100"
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return errors.New("the disk was filled, and there is room for more")
	case !errors.As(err, &refused) || refused.Code == diskFull || strings.HasPrefix(refused.Code, "57P"):
		return nil
	default:
		return err
	}
}
