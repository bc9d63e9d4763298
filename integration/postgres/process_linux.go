package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes puts a process into a group of its own, away from the
// terminal's interrupts, and has the kernel shut it down when its parent ends.
func processAttributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: credential, Pdeathsig: syscall.SIGQUIT}
}

// childrenOf lists the children of a process that has one thread.
func childrenOf(pid int) []int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var children []int
	for _, field := range strings.Fields(string(content)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// freeInMemory is the number of bytes free in a folder that is in memory; 0 for
// any other.
func freeInMemory(dir string) uint64 {
	const tmpfs = 0x01021994
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil || int64(stat.Type) != tmpfs {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}
