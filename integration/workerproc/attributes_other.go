//go:build !linux

package workerproc

import "syscall"

// processAttributes puts a process into a group of its own, away from the
// terminal's interrupts.
func processAttributes(wanted *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if wanted != nil {
		attributes.Credential = wanted.Credential
	}
	return attributes
}
