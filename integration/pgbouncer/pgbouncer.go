package pgbouncer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// Find returns the path of the program pgbouncer. Debian puts it where an
// ordinary user's PATH doesn't lead.
func Find() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer", "/usr/local/bin/pgbouncer"} {
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no pgbouncer found; install it with: integration/pgbouncer/install.sh")
}

// Config says how a Bouncer pools. The zero value is what its package is for.
type Config struct {
	// Mode is pool_mode. "": transaction.
	Mode string
	// PoolSize is how many connections to the server each database has. Zero: 20.
	PoolSize int
}

// Bouncer is a running PgBouncer.
type Bouncer struct {
	port    int
	process *workerproc.Process
}

// Start puts a PgBouncer in front of a server until the test ends, and returns
// when it accepts connections.
func Start(t testing.TB, server *postgres.Server, config Config) *Bouncer {
	t.Helper()
	program, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lockstep-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	b := &Bouncer{port: freePort(t)}
	ini := filepath.Join(dir, "pgbouncer.ini")
	for path, content := range map[string]string{
		ini:                             b.ini(server, config, dir),
		filepath.Join(dir, "users.txt"): "\"postgres\" \"\"\n",
	} {
		if err := os.WriteFile(path, []byte(content), fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	credential, err := postgres.Credential()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, ini)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	b.process = workerproc.StartCommand(t, "pgbouncer", cmd)
	b.await(t)
	return b
}

func (b *Bouncer) ini(server *postgres.Server, config Config, dir string) string {
	if config.Mode == "" {
		config.Mode = "transaction"
	}
	if config.PoolSize == 0 {
		config.PoolSize = 20
	}
	settings := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d user=postgres", server.Host(), server.Port()),
		"[pgbouncer]",
		"listen_addr = " + host, fmt.Sprintf("listen_port = %d", b.port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + filepath.Join(dir, "users.txt"),
		"pool_mode = " + config.Mode, fmt.Sprintf("default_pool_size = %d", config.PoolSize),
		"max_client_conn = 500", "log_connections = 0", "log_disconnections = 0",
	}
	return strings.Join(settings, "\n") + "\n"
}

const host = "127.0.0.1"

// await waits until it accepts connections, or has ended.
func (b *Bouncer) await(t testing.TB) {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", b.address())
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-b.process.Done():
			t.Fatalf("pgbouncer ended: %s", b.process.Stderr())
		default:
		}
	}
}

func (b *Bouncer) address() string { return net.JoinHostPort(host, strconv.Itoa(b.port)) }

// URL is the connection string for a database of the server behind it, as the
// server's superuser.
func (b *Bouncer) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", b.address(), database)
}

// Log is the end of what it has logged.
func (b *Bouncer) Log() string { return b.process.Stderr() }

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
