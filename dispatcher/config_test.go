package dispatcher

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func testPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere") // connects to nothing until asked
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestConfigRefused names the field and the number.
func TestConfigRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg  Config
		says string
	}{
		"queue without a name": {Config{Queues: map[string]Queue{"": {}}}, "name of a queue is 0 bytes"},
		"long queue name":      {Config{Queues: map[string]Queue{strings.Repeat("x", 201): {}}}, "name of a queue is 201 bytes"},
		"negative concurrency": {Config{Queues: map[string]Queue{"q": {Concurrency: -1}}}, `Queues["q"].Concurrency is -1`},
		"much concurrency":     {Config{Queues: map[string]Queue{"q": {Concurrency: 10001}}}, `Queues["q"].Concurrency is 10001`},
		"long name":            {Config{Name: strings.Repeat("x", 201)}, "Name is 201 bytes"},
		"short lease":          {Config{Lease: time.Millisecond}, "Lease is 1ms"},
		"long lease":           {Config{Lease: 25 * time.Hour}, "Lease is 25h"},
		"slow heart":           {Config{Heartbeat: 16 * time.Second}, "Heartbeat is 16s"},
		"negative heart":       {Config{Heartbeat: -1}, "Heartbeat is -1ns"},
		"negative poll":        {Config{Poll: -1}, "Poll is -1ns"},
		"negative grace":       {Config{ReturnGrace: -1}, "ReturnGrace is negative"},
		"negative tx":          {Config{MaxTx: -1}, "MaxTx is negative"},
		"few connections":      {Config{MaxConns: 2}, "MaxConns is 2; it needs at least 3 (listener, heartbeat, control), 4 with HandleTx"},
		"few for tx":           {Config{MaxConns: 3, MaxTx: 1}, "need at least 4"},
		"listen url":           {Config{ListenURL: "postgres://[::"}, "ListenURL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(testPool(t), test.cfg); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("New says %v, want %q", err, test.says)
			}
		})
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("a dispatcher without a pool")
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c := Config{Queues: map[string]Queue{"a": {}, "b": {Concurrency: 2}}}.withDefaults()
	if c.Queues["a"].Concurrency != 10 || c.Queues["b"].Concurrency != 2 || c.Lease != 30*time.Second ||
		c.Heartbeat != 10*time.Second || c.Poll != 2*time.Second || c.ShutdownGrace != 30*time.Second || c.MaxTx != 10 {
		t.Errorf("%+v", c)
	}
	if c := (Config{}).withDefaults(); c.Queues["default"].Concurrency != 10 {
		t.Errorf("%+v", c.Queues)
	}
}

// TestShares: MaxConns is never exceeded, and everybody who must has a share.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, tx := range []bool{false, true} {
		for conns := minConns; conns < 40; conns++ {
			c := Config{MaxConns: conns}
			if c.checkConns(tx) != nil {
				continue
			}
			control, txs := c.withDefaults().shares(tx)
			if control < 1 || control > 3 || tx != (txs > 0) || txs > 10 || 2+control+txs > conns {
				t.Errorf("MaxConns %d, tx %t: %d control, %d tx", conns, tx, control, txs)
			}
			if conns >= 15 && (control != 3 || tx && txs != 10) {
				t.Errorf("MaxConns %d, tx %t leaves connections unused: %d control, %d tx", conns, tx, control, txs)
			}
		}
	}
}

func TestHandlePanics(t *testing.T) {
	t.Parallel()
	d, err := New(testPool(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(kind string) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		Handle(d, kind, func(context.Context, Job[int]) error { return nil })
		return false
	}
	for _, test := range []struct {
		kind string
		want bool
	}{{"k", false}, {"k", true}, {"", true}, {strings.Repeat("x", 201), true}} {
		if got := handle(test.kind); got != test.want {
			t.Errorf("Handle(%.10q) panics: %t, want %t", test.kind, got, test.want)
		}
	}
}

func TestAppName(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"":                      "lockstep tx",
		"billing":               "billing lockstep tx",
		strings.Repeat("x", 63): strings.Repeat("x", 51) + " lockstep tx",
		strings.Repeat("é", 31): strings.Repeat("é", 25) + " lockstep tx",
	} {
		if got := appName(user, "tx"); got != want || len(got) > 63 {
			t.Errorf("appName(%q) = %q, want %q", user, got, want)
		}
	}
}
