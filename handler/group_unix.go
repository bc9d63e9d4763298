//go:build unix

package handler

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inGroup starts a command in a process group of its own, all of which is told
// to end when the command is.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone // it ended by itself, and that counts
		}
		return err
	}
}

// endGroup kills what a command has left of its group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH: nothing is left
	}
}
