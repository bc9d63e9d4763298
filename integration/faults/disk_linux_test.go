package faults

import (
	"fmt"
	"syscall"
)

// mount puts a small file system of its own at a folder.
func mount(dir string, bytes int64) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// unmount takes it away, also under somebody who still looks at it.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
