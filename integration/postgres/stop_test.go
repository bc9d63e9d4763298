package postgres

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestCloseLeavesNothing(t *testing.T) {
	base := reachableTempDir(t)
	t.Setenv("TMPDIR", base)
	for name, end := range map[string]func(*Server) error{
		"running": func(*Server) error { return nil },
		"stopped": func(s *Server) error { return s.Stop(testContext(t)) },
		"crashed": func(s *Server) error { s.Crash(); return nil },
		"closed":  (*Server).Close,
	} {
		server, err := Start(testContext(t), Config{})
		if err != nil {
			t.Fatal(err)
		}
		pid := server.process.cmd.Process.Pid
		if err := errors.Join(end(server), server.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: process %d is still there (%v)", name, pid, err)
		}
		expectEmpty(t, base)
	}
}

func TestCrashAndStartAgain(t *testing.T) {
	t.Parallel()
	server := start(t, Config{})
	port := server.Port()
	execute(t, connect(t, server), "CREATE TABLE survivor (round int)")
	for round := range 3 {
		conn := connect(t, server)
		execute(t, conn, "INSERT INTO survivor VALUES ("+strconv.Itoa(round)+")")
		execute(t, conn, "BEGIN; INSERT INTO survivor VALUES (100)")
		server.Crash()
		if _, err := conn.Exec(testContext(t), "COMMIT"); err == nil {
			t.Fatal("committed to a server that had crashed")
		}
		if err := server.StartAgain(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := show(t, connect(t, server), "SELECT string_agg(round::text, ' ' ORDER BY round) FROM survivor"); got != "0 1 2" {
		t.Errorf("the table holds %s, want 0 1 2", got)
	}
	if server.Port() != port {
		t.Errorf("the port went from %d to %d", port, server.Port())
	}
}

func TestCrashEndsBusyBackends(t *testing.T) {
	t.Parallel()
	server := start(t, Config{})
	conn := connect(t, server)
	busy := make(chan error, 1)
	ctx := testContext(t)
	go func() {
		// Between two looks for its postmaster, this backend would go on for long.
		_, err := conn.Exec(ctx, "SELECT count(*) FROM generate_series(1, 1e12::bigint)")
		busy <- err
	}()
	watcher := connect(t, server)
	for show(t, watcher, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE '%1e12%' AND state = 'active' AND pid <> pg_backend_pid()") == "0" {
	}
	server.Crash()
	select {
	case err := <-busy:
		if err == nil {
			t.Error("the query ended without an error")
		}
	case <-time.After(5 * time.Second):
		t.Error("the backend outlived the crash")
	}
	if err := server.StartAgain(ctx); err != nil {
		t.Error(err)
	}
}

func TestStopThenStartAgain(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	server := start(t, Config{})
	conn := connect(t, server)
	execute(t, conn, "CREATE TABLE kept ()")
	if err := errors.Join(server.Stop(ctx), server.Stop(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(ctx); err == nil {
		t.Error("the session outlived the server")
	}
	if err := errors.Join(server.StartAgain(ctx), server.StartAgain(ctx)); err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, server), "SELECT FROM kept")
}

func TestStopWithoutTimeKills(t *testing.T) {
	t.Parallel()
	server := start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop returned %v", err)
	}
	if err := server.StartAgain(testContext(t)); err != nil {
		t.Error(err)
	}
}
