package workerproc

import "syscall"

// processAttributes puts a process into a group of its own, away from the
// terminal's interrupts, and has the kernel kill it when its parent ends.
func processAttributes(wanted *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if wanted != nil {
		attributes.Credential = wanted.Credential
	}
	return attributes
}
