package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestEndsWithItsParent runs itself as a parent that is killed, and waits for
// the parent's server to go.
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
	defer os.RemoveAll(dir)
	deadline := time.Now().Add(10 * time.Second)
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its parent", pid)
		}
		time.Sleep(time.Millisecond)
	}
}
