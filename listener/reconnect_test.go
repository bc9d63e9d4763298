package listener_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
)

// C1: whoever ends the listener's backend costs it a moment, again and again.
func TestC1TerminatedBackendIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.MaxBackoff = 15 * time.Second
		c.Probe = direct(t, testdb.Server(t), c.Channel)
	})
	before := e.becomes(listener.Connected)
	await(t, "the first catch-up", e.catchUps)
	var took []time.Duration
	for turn := range 5 {
		began := time.Now()
		e.terminate()
		await(t, "the catch-up", e.catchUps)
		took = append(took, time.Since(began))
		if lost := e.becomes(listener.Connecting); lost.BackendPID != 0 || lost.LastError == "" {
			t.Errorf("lost: %+v", lost)
		}
		after := e.becomes(listener.Connected)
		if after.BackendPID == before.BackendPID {
			t.Errorf("backend pid is still %d", after.BackendPID)
		}
		before = after
		e.hears("r 0a " + string('1'+rune(turn)))
	}
	if s := e.l.State(); s.Reconnects != 5 || s.CatchUps != 6 {
		t.Errorf("counters: %+v", s)
	}
	// The promise is 200 ms; a busy machine may spoil a round. That none of the
	// five waits is TestLossOfAVerifiedConnectionIsForgiven's.
	if slices.Min(took) > 200*time.Millisecond {
		t.Errorf("LISTEN stood again after %v", took)
	}
}

// C1, C4: the server is away for several attempts, each of them fresh.
func TestC4ServerStoppedAndStarted(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	e := listen(t, server, nil)
	e.becomes(listener.Connected)
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.becomes(listener.Connecting)
	e.moreAttempts(4)
	if s := e.l.State(); s.Mode != listener.Connecting || s.LastError == "" {
		t.Errorf("while the server is down: %+v", s)
	}
	if err := server.StartAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.becomes(listener.Connected)
	e.admin = connect(t, server.URL("postgres"))
	e.hears("p")
	if s := e.l.State(); s.Reconnects < 4 || s.CatchUps < 2 {
		t.Errorf("counters: %+v", s)
	}
}
