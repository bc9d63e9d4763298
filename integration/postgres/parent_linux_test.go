package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ended tells whether a process has ended, also where the first process of a
// container does not wait for those it adopts.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(bytes.TrimSpace(state), []byte("Z"))
}

// TestEndsWithItsParent runs itself as a parent that is killed, waits for the
// parent's server to go, and has the next start clear its folder away.
func TestEndsWithItsParent(t *testing.T) {
	const variable = "LOCKSTEP_TEST_PARENT"
	if os.Getenv(variable) != "" {
		server := start(t, Config{})
		fmt.Println(server.process.cmd.Process.Pid, server.Dir())
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestEndsWithItsParent$")
	parent.Env = append(os.Environ(), variable+"=1")
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	_, err = fmt.Fscanln(output, &pid, &dir)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for !ended(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its parent", pid)
		}
		time.Sleep(time.Millisecond)
	}
	folder := filepath.Dir(dir)
	removeStale(filepath.Dir(folder))
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", folder, err)
	}
}
