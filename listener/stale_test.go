package listener_test

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
)

// throughProxy makes a config whose listener, but not its probes, goes through
// a proxy.
func throughProxy(t *testing.T, server *postgres.Server) (*faultproxy.Proxy, func(*listener.Config)) {
	t.Helper()
	proxy, err := faultproxy.Start(net.JoinHostPort(server.Host(), strconv.Itoa(server.Port())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, func(c *listener.Config) {
		c.Connect = dialer(viaPort(t, server, proxy.Port()))
		c.Probe = direct(t, server, c.Channel)
	}
}

func viaPort(t *testing.T, server *postgres.Server, port int) string {
	t.Helper()
	u, err := url.Parse(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return u.String()
}

// C2: a connection that dies without a sound is found, said to be stale, and
// replaced.
func TestC2BlackHoleIsFound(t *testing.T) {
	t.Parallel()
	const interval, timeout = 100 * time.Millisecond, 500 * time.Millisecond
	for name, fault := range map[string]faultproxy.Fault{
		"both ways":   faultproxy.BlackHole,
		"only to us":  {DropDown: true},
		"not forever": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := throughProxy(t, testdb.Server(t))
			e := listen(t, testdb.Server(t), func(c *listener.Config) {
				through(c)
				c.ProbeInterval, c.ProbeTimeout = interval, timeout
			})
			before := e.becomes(listener.Connected)
			proxy.Set(fault)
			began := time.Now()
			stale := e.becomes(listener.Stale)
			const busyMachine = 5 * time.Second
			if took, bound := time.Since(began), interval+timeout; took > bound+busyMachine {
				t.Errorf("found after %v, want %v", took, bound)
			}
			if stale.Unanswered != 1 || stale.LastError == "" || stale.BackendPID != 0 {
				t.Errorf("stale: %+v", stale)
			}
			e.moreAttempts(2)
			if mode := e.l.State().Mode; mode != listener.Stale {
				t.Errorf("while nothing can be reached: %v", mode)
			}
			proxy.Set(faultproxy.Fault{})
			after := e.becomes(listener.Connected)
			if after.BackendPID == before.BackendPID || after.CatchUps < 2 {
				t.Errorf("before %+v, after %+v", before, after)
			}
			e.hears("p")
		})
	}
}

// The socket is closed in order or reset: both are seen without a probe.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*faultproxy.Proxy){
		"cut":   (*faultproxy.Proxy).Cut,
		"reset": (*faultproxy.Proxy).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := throughProxy(t, testdb.Server(t))
			e := listen(t, testdb.Server(t), through)
			e.becomes(listener.Connected)
			ends(proxy)
			e.becomes(listener.Connecting)
			e.becomes(listener.Connected)
			e.hears("p")
		})
	}
}

// Probes go on as long as they are answered, and each silence brings one.
func TestQuietChannelIsProbed(t *testing.T) {
	t.Parallel()
	probed := make(chan struct{}, 1000)
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		notify := direct(t, testdb.Server(t), c.Channel)
		c.ProbeInterval = time.Millisecond
		c.Probe = func(ctx context.Context, payload string) error {
			probed <- struct{}{}
			return notify(ctx, payload)
		}
	})
	for range 5 {
		await(t, "a probe", probed)
	}
	if s := e.l.State(); s.Mode != listener.Connected || s.Unanswered != 0 || s.Probes < 5 || s.Signals != 0 {
		t.Errorf("state: %+v", s)
	}
}

// Run ends although its connection is opening into a black hole.
func TestRunEndsWhileConnecting(t *testing.T) {
	t.Parallel()
	proxy, through := throughProxy(t, testdb.Server(t))
	proxy.Set(faultproxy.BlackHole)
	e := listen(t, testdb.Server(t), through)
	await(t, "an attempt to connect", e.attempts)
	if err := e.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}
