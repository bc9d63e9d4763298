package handler_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/handler"
)

// TestSwitchedProtocols: an app that answers 101 has taken the connection out
// of HTTP, and then says nothing. The attempt ends all the same.
func TestSwitchedProtocols(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: silence\r\nConnection: Upgrade\r\n\r\n")
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	id := r.enqueue("{}")
	r.drain(r.target(handler.PushConfig{Timeout: 10 * time.Second}))
	if fate, note := r.fate(id); fate != "retrying 1" {
		t.Errorf("the job is %s: %s", fate, note)
	}
}

// TestIdleConnectionsEndHere, before an app that keeps them for two seconds or
// five would end them: a push that meets that end is a failed attempt.
func TestIdleConnectionsEndHere(t *testing.T) {
	t.Parallel()
	r := newRig(t, status(200, ""))
	r.enqueue("{}")
	target := r.target(handler.PushConfig{})
	r.drain(target)
	idle := time.Now()
	r.until("the connection is closed", func() bool { return r.app.opened.Load() == 1 && r.app.open.Load() == 0 })
	if took := time.Since(idle); took > 20*time.Second { // on a slow machine
		t.Errorf("the connection was kept for %v", took)
	}
}
