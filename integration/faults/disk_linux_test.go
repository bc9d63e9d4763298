package faults

import (
	"errors"
	"fmt"
	"syscall"
)

// mount puts a small file system of its own at a folder. It is in memory, and
// takes as much of that as is written.
func mount(dir string, bytes int64) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// unmount takes it away, also under somebody who still looks at it.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// resize gives it another size.
func resize(dir string, bytes int64) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}

// shrink leaves no room in it.
func shrink(dir string) error {
	for {
		var stat syscall.Statfs_t
		if err := syscall.Statfs(dir, &stat); err != nil {
			return err
		}
		err := resize(dir, int64(stat.Blocks-stat.Bfree)*stat.Bsize)
		if !errors.Is(err, syscall.EINVAL) { // something was written meanwhile
			return err
		}
	}
}
