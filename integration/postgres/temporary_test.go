package postgres

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveStale has three folders: one in use, one that a process which was
// killed left, and one of a process that hasn't come as far as its lock.
func TestRemoveStale(t *testing.T) {
	t.Parallel()
	base := reachableTempDir(t)
	used, err := lockedFolder(base)
	if err != nil {
		t.Fatal(err)
	}
	defer used.remove()
	left, err := lockedFolder(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.lock.Close(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	young := filepath.Join(base, temporaryPrefix+"young")
	if err := os.Mkdir(young, 0o700); err != nil {
		t.Fatal(err)
	}

	removeStale(base)
	for dir, want := range map[string]bool{used.dir: true, left.dir: false, young: true} {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s: kept should be %v (%v)", dir, want, err)
		}
	}
}
