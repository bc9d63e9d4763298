package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	temporaryPrefix = "lockstep-postgres-"

	// lockName is the file in a temporary folder that its process keeps locked:
	// one that nobody locks belongs to a process that was killed.
	lockName = "lock"
)

// temporary is a folder that goes with the process that made it, or with the
// next one that makes another.
type temporary struct {
	dir  string
	lock *os.File
}

// memory is where Linux keeps files in memory.
const memory = "/dev/shm"

// roomInMemory is what has to be free there, in bytes: several servers may be
// at work at once, with up to a gigabyte of log each.
const roomInMemory = 4 << 30

// bases are the folders to try for a temporary one, in order.
func (c Config) bases() []string {
	tried := []string{os.TempDir(), "/tmp", "/var/tmp"}
	if c.InMemory && os.Getenv("TMPDIR") == "" && freeInMemory(memory) >= roomInMemory {
		return append([]string{memory}, tried...)
	}
	return tried
}

// newTemporary makes a folder below the first of some that the server's user
// can reach.
func newTemporary(o *owner, tried []string) (*temporary, error) {
	for _, base := range tried {
		if o.reaches(base) {
			removeStale(base)
			return lockedFolder(base)
		}
	}
	return nil, fmt.Errorf("no temporary folder that the user %s, as whom root runs PostgreSQL, can reach: tried %q; set TMPDIR to one", o.name, tried)
}

func lockedFolder(base string) (*temporary, error) {
	dir, err := os.MkdirTemp(base, temporaryPrefix)
	if err != nil {
		return nil, err
	}
	folder := &temporary{dir: dir}
	if err := folder.open(); err != nil {
		return nil, errors.Join(err, folder.remove())
	}
	return folder, nil
}

// open lets the server's user in, and locks the folder. The lock gets its name
// once it is held, so that nobody finds it free.
func (t *temporary) open() (err error) {
	if err := os.Chmod(t.dir, 0o711); err != nil {
		return err
	}
	path := filepath.Join(t.dir, lockName)
	if t.lock, err = os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := flock(t.lock); err != nil {
		return fmt.Errorf("locking %s: %w", t.lock.Name(), err)
	}
	return os.Rename(t.lock.Name(), path)
}

func (t *temporary) remove() error {
	err := os.RemoveAll(t.dir)
	if t.lock != nil {
		_ = t.lock.Close() // after a first call it is closed already
	}
	return err
}

// removeStale clears away what processes that were killed left in base. What
// can't be removed is another user's, and stays.
func removeStale(base string) {
	locks, err := filepath.Glob(filepath.Join(base, temporaryPrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if flock(lock) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = lock.Close()
	}
}

// flock takes a lock that ends with the process, however it ends.
func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
