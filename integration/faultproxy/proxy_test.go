package faultproxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
)

// silence is how long a test listens before it believes that nothing comes.
const silence = 50 * time.Millisecond

func TestForwards(t *testing.T) {
	t.Parallel()
	_, client := start(t)
	client.say("hello")
	client.hears("hello")
}

func TestBlackHoleDeliversLate(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	client.say("before")
	client.hears("before")

	proxy.Set(faultproxy.BlackHole)
	client.say("during")
	client.hearsNothing()
	fresh := dial(t, proxy)
	fresh.say("a new connection opens, and is as silent")
	fresh.hearsNothing()

	proxy.Set(faultproxy.Fault{})
	client.hears("during")
	fresh.hears("a new connection opens, and is as silent")
}

func TestOneDirectionIsDropped(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultproxy.Fault{
		"up":   {DropUp: true},
		"down": {DropDown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, client := start(t)
			proxy.Set(fault)
			client.say("hello")
			client.hearsNothing()
			proxy.Set(faultproxy.Fault{})
			client.hears("hello")
		})
	}
}

func TestDelayHoldsEachDirection(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	proxy.Set(faultproxy.Fault{Delay: silence})
	began := time.Now()
	client.say("slow")
	client.hears("slow")
	if took := time.Since(began); took < 2*silence {
		t.Errorf("there and back took %v, want at least %v", took, 2*silence)
	}
}

func TestCutEndsInOrder(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	client.say("hello")
	client.hears("hello")
	proxy.Cut()
	if _, err := client.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("read after Cut: %v, want EOF", err)
	}
	again := dial(t, proxy)
	again.say("the proxy goes on")
	again.hears("the proxy goes on")
}

func TestResetBreaks(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	client.say("hello")
	client.hears("hello")
	proxy.Reset()
	if _, err := client.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after Reset: %v, want ECONNRESET", err)
	}
}

func TestRefuseConcernsNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	client.say("hello")
	client.hears("hello")
	proxy.Set(faultproxy.Fault{Refuse: true})
	// The reset may arrive during the dial already.
	if conn, err := net.Dial("tcp", address(proxy)); err == nil {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read of a refused connection: %v, want ECONNRESET", err)
		}
	}
	client.say("still here")
	client.hears("still here")
}

func TestServerDownIsARefusal(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	proxy := startFor(t, server.Addr().String())
	if conn, err := net.Dial("tcp", address(proxy)); err == nil {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v, want ECONNRESET", err)
		}
	}
}

// start puts a proxy in front of a server that says every line again.
func start(t *testing.T) (*faultproxy.Proxy, *peer) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	proxy := startFor(t, server.Addr().String())
	return proxy, dial(t, proxy)
}

func startFor(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

func address(proxy *faultproxy.Proxy) string {
	return fmt.Sprintf("127.0.0.1:%d", proxy.Port())
}

// peer is a client that speaks in lines.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, proxy *faultproxy.Proxy) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address(proxy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newPeer(t, conn)
}

func newPeer(t *testing.T, conn net.Conn) *peer { return &peer{t, conn, bufio.NewReader(conn)} }

func (p *peer) say(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) hears(want string) {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := p.in.ReadString('\n'); err != nil || got != want+"\n" {
		p.t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func (p *peer) hearsNothing() {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(silence))
	if c, err := p.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("heard %q, %v, want nothing", c, err)
	}
}
