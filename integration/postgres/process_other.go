//go:build !linux

package postgres

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes puts a process into a group of its own, away from the
// terminal's interrupts.
func processAttributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: credential}
}

// childrenOf lists the children of a process.
func childrenOf(pid int) []int {
	output, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var children []int
	for _, field := range strings.Fields(string(output)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// freeInMemory: other systems than Linux have no folder in memory.
func freeInMemory(string) uint64 { return 0 }
