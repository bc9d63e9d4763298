package listener_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/listener"
)

func TestWakeCoalesces(t *testing.T) {
	t.Parallel()
	wake := listener.NewWake()
	ready := func() bool {
		select {
		case <-wake.C():
			return true
		default:
			return false
		}
	}
	if ready() {
		t.Error("a new Wake is set")
	}
	wake.Set()
	wake.Set()
	if !ready() {
		t.Error("not awake after Set")
	}
	if ready() {
		t.Error("two calls of Set woke twice")
	}
	wake.Set()
	if !ready() {
		t.Error("not awake after another Set")
	}
}
