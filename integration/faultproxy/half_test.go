package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestStrandedClientHearsNothing: its server is gone, and nothing says so.
func TestStrandedClientHearsNothing(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	client.say("before")
	client.hears("before")
	proxy.Strand()
	client.say("to nobody")
	client.hearsNothing()
	fresh := dial(t, proxy)
	fresh.say("a new connection is as ever")
	fresh.hears("a new connection is as ever")

	proxy.Bury()
	_ = client.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := client.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("read after Bury: %v, want EOF", err)
	}
	fresh.say("and stays")
	fresh.hears("and stays")
}

// TestAbandonedServerHearsNothing: its client is gone, and nothing says so.
func TestAbandonedServerHearsNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	proxy := startFor(t, listener.Addr().String())
	client := dial(t, proxy)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server := newPeer(t, conn)
	client.say("hello")
	server.hears("hello")

	proxy.Abandon()
	if _, err := client.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client's read: %v, want ECONNRESET", err)
	}
	server.say("to nobody")
	server.hearsNothing()
	proxy.Bury()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := server.in.ReadByte(); err == nil {
		t.Error("the server's side outlived Bury")
	}
}

func TestLeadTo(t *testing.T) {
	t.Parallel()
	proxy, client := start(t)
	other, otherClient := start(t)
	otherClient.say("here")
	otherClient.hears("here")
	proxy.LeadTo(address(other))
	other.Cut() // ends what goes through other; the old connection does not
	client.say("an open connection stays")
	client.hears("an open connection stays")
	fresh := dial(t, proxy)
	fresh.say("a new one")
	fresh.hears("a new one")
	other.Cut()
	_ = fresh.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := fresh.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the new connection does not lead to the other address: %v", err)
	}
}
