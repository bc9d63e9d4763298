//go:build !linux

package workerproc

import "syscall"

// processAttributes puts a process into a group of its own, away from the
// terminal's interrupts.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
