package faults

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// diskSize holds a server with what ten minutes leave behind.
const diskSize = 1 << 30

// disks makes folders for servers, each on a small file system of its own where
// this process may mount one.
type disks struct {
	base    string
	count   int
	refused error // why nothing can be mounted; nil: it can
}

const diskPrefix = "lockstep-faults-"

func newDisks(t testing.TB) *disks {
	t.Helper()
	removeStale()
	base, err := os.MkdirTemp("", diskPrefix)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockFolder(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.RemoveAll(base), lock.Close()); err != nil {
			t.Error(err)
		}
	})
	return &disks{base: base}
}

// lockFolder says that a folder is in use, and lets root's servers in, which run
// as another user.
func lockFolder(base string) (*os.File, error) {
	if err := os.Chmod(base, 0o711); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	return lock, err
}

// removeStale takes away what processes that were killed have left: nobody locks
// it any more.
func removeStale() {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), diskPrefix+"*", "lock"))
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			servers, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "server*"))
			for _, dir := range servers {
				_ = unmount(dir) // or it is none
			}
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = lock.Close()
	}
}

// folder makes the next one.
func (d *disks) folder() (string, error) {
	d.count++
	dir := filepath.Join(d.base, "server"+string(rune('a'+d.count/26))+string(rune('a'+d.count%26)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if d.refused == nil {
		d.refused = mount(dir, diskSize)
	}
	return dir, nil
}

func (d *disks) remove(dir string) error {
	if d.refused == nil {
		if err := unmount(dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
