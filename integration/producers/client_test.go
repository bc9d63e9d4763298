package producers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// client is one connection of a producer.
type client struct {
	*pgx.Conn
	t testing.TB
}

func newClient(t testing.TB, db *testdb.DB) *client {
	t.Helper()
	return &client{Conn: db.Conn(t), t: t}
}

// try runs a statement, or, without arguments, any number of statements.
func (c *client) try(sql string, args ...any) error {
	_, err := c.Exec(c.t.Context(), sql, args...)
	return err
}

// do is try for what must succeed.
func (c *client) do(sql string, args ...any) {
	c.t.Helper()
	if err := c.try(sql, args...); err != nil {
		c.t.Fatalf("%v\nin: %s", err, sql)
	}
}

// timed is try, and how long it took.
func (c *client) timed(sql string, args ...any) (time.Duration, error) {
	start := time.Now()
	err := c.try(sql, args...)
	return time.Since(start), err
}

// call is something that runs while the test goes on.
type call struct {
	done chan struct{}
	took time.Duration
	err  error
}

// start runs statements in the background; the client must not be used until
// the answer is there.
func (c *client) start(sql string) *call {
	return start(c.t, func(ctx context.Context) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
}

func start(t testing.TB, fn func(context.Context) error) *call {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	background := &call{done: make(chan struct{})}
	begun := time.Now()
	go func() {
		defer close(background.done)
		background.err = fn(ctx)
		background.took = time.Since(begun)
	}()
	t.Cleanup(func() { cancel(); <-background.done })
	return background
}

// wait returns the error of what was started.
func (c *call) wait() error {
	<-c.done
	return c.err
}

// blocked returns once the client waits for a lock; it fails the test if what
// was started ends before that.
func (c *client) blocked(db *testdb.DB, running *call) {
	c.t.Helper()
	for testdb.Value[bool](c.t, db, `select wait_event_type is distinct from 'Lock' from pg_stat_activity where pid = $1`, int64(c.PgConn().PID())) {
		select {
		case <-running.done:
			c.t.Fatalf("did not wait: %v", running.err)
		case <-time.After(time.Millisecond):
		}
	}
}

// refusal is the server's error, or nil if there is none.
func refusal(t testing.TB, err error) *pgconn.PgError {
	t.Helper()
	var refused *pgconn.PgError
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	return refused
}

// lanes tells of each lane what its jobs' stages are, in lane order: "a:rww".
const lanes = `select coalesce(string_agg(lane, ' ' order by lane), '') from (
	select ordering_key || ':' || string_agg(stage::text, '' order by lane_turn) as lane
	from lockstep.job where ordering_key is not null group by ordering_key) l`

// expectLanes compares that.
func expectLanes(t testing.TB, db *testdb.DB, want string) {
	t.Helper()
	if got := testdb.Value[string](t, db, lanes); got != want {
		t.Errorf("lanes are %q, want %q", got, want)
	}
}
