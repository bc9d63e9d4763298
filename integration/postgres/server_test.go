package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	server := start(t, Config{MaxConnections: 37, Settings: map[string]string{
		"shared_buffers":   "16MB",
		"application_name": `it's a \ test`,
		"port":             "1",
	}})
	conn := connect(t, server)
	for setting, want := range map[string]string{
		"max_connections":           "37",
		"shared_buffers":            "16MB",
		"application_name":          `it's a \ test`,
		"fsync":                     "off",
		"synchronous_commit":        "on",
		"track_commit_timestamp":    "on",
		"max_prepared_transactions": "10",
		"listen_addresses":          "127.0.0.1",
	} {
		execute(t, conn, "RESET application_name")
		if got := show(t, conn, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

func TestDurable(t *testing.T) {
	t.Parallel()
	conn := connect(t, start(t, Config{Durable: true}))
	if got := show(t, conn, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
}

// TestInMemory: the folder is in memory where that was asked for and there is
// room, and nowhere else.
func TestInMemory(t *testing.T) {
	for _, test := range []struct {
		config Config
		tmpdir string
		want   bool
	}{
		{Config{InMemory: true}, "", freeInMemory(memory) >= roomInMemory},
		{Config{InMemory: true}, reachableTempDir(t), false},
		{Config{}, "", false},
	} {
		t.Setenv("TMPDIR", test.tmpdir)
		server, err := Start(testContext(t), test.config)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(server.Dir(), memory) != test.want {
			t.Errorf("in memory %v, TMPDIR %q: the server's folder is %s", test.config.InMemory, test.tmpdir, server.Dir())
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	if freeInMemory("/proc") != 0 || freeInMemory("/missing") != 0 {
		t.Error("what is no memory has room")
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	servers := make([]*Server, 6)
	var group errgroup.Group
	for i := range servers {
		group.Go(func() (err error) {
			servers[i], err = Start(ctx, Config{InMemory: true, Settings: map[string]string{"shared_buffers": "1MB"}})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	ports := map[int]bool{}
	for _, server := range servers {
		ports[server.Port()] = true
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(ports) != len(servers) {
		t.Errorf("%d servers had %d ports", len(servers), len(ports))
	}
}

func TestPortTakenInBetween(t *testing.T) {
	t.Parallel()
	first := start(t, Config{})
	second := start(t, Config{})
	if err := second.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ports := []int{first.Port(), first.Port(), second.Port()}
	err := second.start(testContext(t), func() (port int, err error) {
		port, ports = ports[0], ports[1:]
		return port, nil
	})
	if err != nil || len(ports) != 0 {
		t.Fatalf("%v, with the ports %v left", err, ports)
	}
	dir := show(t, connect(t, second), "SHOW data_directory")
	if dir != second.Dir() {
		t.Errorf("connected to the server in %s, want %s", dir, second.Dir())
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	server := start(t, Config{})
	sockets, err := filepath.Glob(filepath.Join(server.Dir(), ".s.PGSQL.*"))
	if err != nil || len(sockets) == 0 {
		t.Errorf("no socket in %s: %v", server.Dir(), err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	base := reachableTempDir(t)
	t.Setenv("TMPDIR", base)
	_, err := Start(testContext(t), Config{Settings: map[string]string{"shared_buffers": "much"}})
	if !errors.Is(err, errEndedEarly) || !strings.Contains(err.Error(), `"much"`) {
		t.Errorf("the error does not carry the server's log: %v", err)
	}
	expectEmpty(t, base)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{}); err == nil {
		t.Error("started under a context that had ended")
	}
	expectEmpty(t, base)
}

func TestOwnFolderIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableTempDir(t), "server")
	first := start(t, Config{Dir: dir})
	execute(t, connect(t, first), "CREATE TABLE kept ()")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := start(t, Config{Dir: dir})
	execute(t, connect(t, second), "SELECT FROM kept")
}

// reachableTempDir is a folder that the server's user gets into, which root's
// t.TempDir() is not.
func reachableTempDir(t *testing.T) string {
	t.Helper()
	owner, err := serverOwner()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := newTemporary(owner, Config{}.bases())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.remove() })
	dir := filepath.Join(folder.dir, "open")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind in %s: %v (%v)", dir, entries, err)
	}
}
