package postgres

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestUserOfTheServer holds for root and everybody else: a server never runs
// as root.
func TestUserOfTheServer(t *testing.T) {
	t.Parallel()
	server := start(t, Config{})
	info, err := os.Stat(filepath.Join(server.Dir(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	uid := ownerOf(t, info)
	if uid == 0 {
		t.Error("the server runs as root")
	}
	if os.Geteuid() != 0 && uid != os.Geteuid() {
		t.Errorf("the server runs as %d, started by %d", uid, os.Geteuid())
	}
}

// TestUnreachableTMPDIR is root's case: its TMPDIR may be closed to the user
// that the server runs as.
func TestUnreachableTMPDIR(t *testing.T) {
	closed := t.TempDir() // below a folder of mode 0700
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", closed)
	server := start(t, Config{})
	inside := strings.HasPrefix(server.Dir(), closed)
	if root := os.Geteuid() == 0; inside == root {
		t.Errorf("the server's folder is %s, TMPDIR %s", server.Dir(), closed)
	}
}

func TestReaches(t *testing.T) {
	t.Parallel()
	base := reachableTempDir(t)
	stranger := &owner{name: "stranger", uid: 54321, gid: 54321}
	for mode, want := range map[os.FileMode]bool{0o700: false, 0o710: false, 0o701: true, 0o755: true, 0o666: false} {
		dir := filepath.Join(base, strconv.FormatUint(uint64(mode), 8))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if got := stranger.reaches(dir); got != want {
			t.Errorf("mode %o: reached %v, want %v", mode, got, want)
		}
	}
	if stranger.reaches(filepath.Join(base, "missing")) {
		t.Error("reached a folder that does not exist")
	}
	err := (&owner{name: "stranger", uid: 54321}).prepare(filepath.Join(base, "700", "server"))
	if err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("a folder that can't be reached: %v", err)
	}
}

func TestServerOwner(t *testing.T) {
	t.Parallel()
	got, err := serverOwner()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if got != nil {
			t.Errorf("an ordinary user's server would run as %s", got.name)
		}
		return
	}
	if known, err := user.Lookup(got.name); err != nil || known.Uid == "0" {
		t.Errorf("root's server would run as %s (%v)", got.name, err)
	}
}

func ownerOf(t *testing.T, info os.FileInfo) int {
	t.Helper()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("this system tells no owner")
	}
	return int(stat.Uid)
}
