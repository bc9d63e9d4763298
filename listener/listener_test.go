package listener_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
)

func TestSignalsArrive(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), nil)
	s := e.becomes(listener.Connected)
	if s.BackendPID == 0 || s.Since.IsZero() || s.LastError != "" {
		t.Errorf("connected: %+v", s)
	}
	e.hears("r 0a 7")
	e.notify("something newer")
	if got := await(t, "the unknown signal", e.signals); got.Class != listener.Unknown {
		t.Errorf("class %q, want Unknown", got.Class)
	}
	e.notify("x somebodyelse")
	e.hears("p") // and so not the probe before it
	s = e.l.State()
	if s.Signals != 3 || s.Unknown != 1 || s.CatchUps != 1 || s.Probes != 1 || s.Reconnects != 0 {
		t.Errorf("counters: %+v", s)
	}
}

// TestOtherChannels: what else the connection hears of is not the listener's.
func TestOtherChannels(t *testing.T) {
	t.Parallel()
	other := "other " + t.Name()
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		fresh := c.Connect
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			conn, err := fresh(ctx)
			if err == nil {
				_, err = conn.Exec(ctx, "listen "+pgx.Identifier{other}.Sanitize())
			}
			return conn, err
		}
	})
	e.becomes(listener.Connected)
	for range 3 {
		if err := listener.Notify(t.Context(), e.admin, other, "p"); err != nil {
			t.Fatal(err)
		}
		e.hears("r 0a 7")
	}
	if s := e.l.State(); s.Mode != listener.Connected || s.Signals != 3 || s.CatchUps != 1 || s.LastError != "" {
		t.Errorf("%+v", s)
	}
}

// What is committed before LISTEN stands is found by the catch-up, what comes
// after it is notified: so the catch-up must come when LISTEN stands already.
func TestCatchUpComesAfterListen(t *testing.T) {
	t.Parallel()
	admin := connect(t, testdb.Server(t).URL("postgres"))
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.OnCatchUp = func() {
			if err := listener.Notify(context.Background(), admin, c.Channel, "r 0a 1"); err != nil {
				t.Error(err)
			}
		}
	})
	if got := await(t, "what was committed during the catch-up", e.signals); got.Turn != 1 {
		t.Errorf("heard %+v", got)
	}
}

// C10: a LISTEN session inside a transaction holds back the notification queue
// of the whole server.
func TestC10NeverInsideATransaction(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), nil)
	e.becomes(listener.Connected)
	e.hears("p")
	var state string
	var inTransaction bool
	err := e.admin.QueryRow(t.Context(), `
		select state, xact_start is not null or backend_xid is not null or backend_xmin is not null
		from pg_stat_activity where pid = $1`, e.l.State().BackendPID).Scan(&state, &inTransaction)
	if err != nil || state != "idle" || inTransaction {
		t.Errorf("state %q, in a transaction: %v, error: %v", state, inTransaction, err)
	}
}

func TestChannelNamesAreData(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{`a"b`, `a'b; select 1 --`, "Ünicode ✓", strings.Repeat("x", 63)} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			e := listen(t, testdb.Server(t), func(c *listener.Config) { c.Channel = channel })
			e.becomes(listener.Connected)
			e.hears("p")
		})
	}
}

func TestRunEndsWithNilAndCanRunAgain(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), nil)
	e.becomes(listener.Connected)
	if err := e.l.Run(t.Context()); err == nil {
		t.Error("a second Run beside the first: no error")
	}
	if err := e.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if s := e.l.State(); s.Mode != listener.Connecting || s.BackendPID != 0 {
		t.Errorf("after Run: %+v", s)
	}
	e.run()
	e.becomes(listener.Connected)
	e.hears("p")
}

// Run must end at once also in the middle of a wait.
func TestRunEndsDuringBackoff(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.MaxBackoff = time.Hour
		c.Connect = func(context.Context) (*pgx.Conn, error) { return nil, errors.New("no server today") }
	})
	await(t, "an attempt to connect", e.attempts)
	if err := e.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestNewNamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	good := listener.Config{
		Connect:   dialer(""),
		Channel:   "c",
		OnSignal:  func(listener.Signal) {},
		OnCatchUp: func() {},
	}
	if _, err := listener.New(good); err != nil {
		t.Fatalf("zero values: %v", err)
	}
	for field, spoil := range map[string]func(*listener.Config){
		"Connect":       func(c *listener.Config) { c.Connect = nil },
		"OnSignal":      func(c *listener.Config) { c.OnSignal = nil },
		"OnCatchUp":     func(c *listener.Config) { c.OnCatchUp = nil },
		"Channel is 0":  func(c *listener.Config) { c.Channel = "" },
		"Channel is 64": func(c *listener.Config) { c.Channel = strings.Repeat("x", 64) },
		"ProbeInterval": func(c *listener.Config) { c.ProbeInterval = -1 },
		"ProbeTimeout":  func(c *listener.Config) { c.ProbeTimeout = -1 },
		"MaxBackoff":    func(c *listener.Config) { c.MaxBackoff = -1 },
		"HealthyAfter":  func(c *listener.Config) { c.HealthyAfter = -1 },
	} {
		bad := good
		spoil(&bad)
		if _, err := listener.New(bad); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// What the schema's own functions say must be what ParseSignal understands.
func TestTheSchemaIsUnderstood(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	channel := testdb.Value[string](t, db, "select lockstep.channel()")
	queue := testdb.Value[string](t, db, "select lockstep.queue_hash('default')")
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.Connect, c.Channel = dialer(db.URL), channel
	})
	e.becomes(listener.Connected)

	before := time.Now()
	db.Exec(t, "select lockstep.enqueue('kind')")
	if got := await(t, "the signal of a job", e.signals); got.Class != listener.Runnable || got.Queue != queue || got.Turn < 1 {
		t.Errorf("enqueued: %+v, want queue %s", got, queue)
	}
	db.Exec(t, "select lockstep.enqueue('kind', delay => '1 hour')")
	got := await(t, "the signal of a due time", e.signals)
	if hour := before.Add(time.Hour).Truncate(time.Millisecond); got.Class != listener.Due || got.Queue != queue ||
		got.Due.Before(hour) || got.Due.After(hour.Add(time.Minute)) {
		t.Errorf("scheduled: %+v, want queue %s, due about %v", got, queue, hour)
	}
}

func TestModesAreSpelled(t *testing.T) {
	t.Parallel()
	for mode, want := range map[listener.Mode]string{
		listener.Connecting: "connecting", listener.Connected: "connected",
		listener.Stale: "stale", listener.PollOnly: "poll-only", 99: "unknown",
	} {
		if got := mode.String(); got != want {
			t.Errorf("%d: %q, want %q", mode, got, want)
		}
	}
}
