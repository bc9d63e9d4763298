package faults

import (
	"os"
	"path/filepath"
	"testing"
)

// diskSize holds a server with what ten minutes leave behind. Memory is used for
// what is written alone.
const diskSize = 1 << 30

// disks makes folders for servers, each on a small file system of its own where
// this process may mount one.
type disks struct {
	base    string
	count   int
	refused error // why nothing can be mounted; nil: it can
}

func newDisks(t testing.TB) *disks {
	t.Helper()
	base, err := os.MkdirTemp("", "lockstep-faults-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o711); err != nil { // root's servers run as another user
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	return &disks{base: base}
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

// ballast is the file that fills a disk. It lies beside the server's own.
func ballast(dir string) string { return filepath.Join(dir, "ballast") }

// fill leaves no room.
func (d *disks) fill(dir string) error {
	file, err := os.OpenFile(ballast(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	zeros := make([]byte, 1<<20)
	for len(zeros) > 0 {
		if _, err := file.Write(zeros); err != nil {
			zeros = zeros[:len(zeros)/2]
		}
	}
	return nil
}

func (d *disks) free(dir string) error { return os.Remove(ballast(dir)) }
