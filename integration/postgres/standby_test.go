package postgres

import (
	"testing"
	"time"
)

// TestStandbyTakesOver: a synchronous standby has every commit that was
// answered, and a new one can follow it in turn.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	primary := start(t, Config{Settings: map[string]string{"shared_buffers": "16MB"}})
	conn := connect(t, primary)
	execute(t, conn, "CREATE TABLE kept (n int)")
	for round := range 2 {
		standby := startStandby(t, primary)
		synchronous(t, primary)
		conn := connect(t, primary)
		execute(t, conn, "INSERT INTO kept VALUES (1)")
		primary.Crash()
		if err := standby.Promote(testContext(t)); err != nil {
			t.Fatal(err)
		}
		conn = connect(t, standby)
		execute(t, conn, "INSERT INTO kept VALUES (10)")
		if got, want := show(t, conn, "SELECT sum(n)::text FROM kept"), []string{"11", "22"}[round]; got != want {
			t.Errorf("round %d: the sum is %s, want %s", round, got, want)
		}
		primary = standby
	}
	if got := show(t, connect(t, primary), "SHOW shared_buffers"); got != "16MB" {
		t.Errorf("the standby's shared_buffers are %s, not the primary's", got)
	}
}

// TestStandbyFollowsARestart: it finds its primary again.
func TestStandbyFollowsARestart(t *testing.T) {
	t.Parallel()
	primary := start(t, Config{})
	startStandby(t, primary)
	synchronous(t, primary)
	primary.Crash()
	if err := primary.StartAgain(testContext(t)); err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, primary), "CREATE TABLE answered ()") // answered by the standby, too
}

func TestStandbyOfAServerThatIsDown(t *testing.T) {
	base := reachableTempDir(t)
	t.Setenv("TMPDIR", base)
	primary, err := Start(testContext(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	primary.Crash()
	if standby, err := primary.Standby(testContext(t), Config{}); err == nil {
		_ = standby.Close()
		t.Error("made a standby of a server that is down")
	}
	if err := primary.Close(); err != nil {
		t.Error(err)
	}
	expectEmpty(t, base)
}

func startStandby(t *testing.T, primary *Server) *Server {
	t.Helper()
	standby, err := primary.Standby(testContext(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	return standby
}

// synchronous has commits wait for the standby, and returns when they do.
func synchronous(t *testing.T, primary *Server) {
	t.Helper()
	conn := connect(t, primary)
	execute(t, conn, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	execute(t, conn, "SELECT pg_reload_conf()")
	for show(t, conn, "SELECT count(*)::text FROM pg_stat_replication WHERE sync_state = 'sync'") == "0" {
		time.Sleep(time.Millisecond)
	}
}
