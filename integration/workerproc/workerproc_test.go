package workerproc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	workerproc.Register("patient", patient)
	workerproc.Register("failing", func(context.Context, []string) error { return errors.New("as asked") })
	os.Exit(workerproc.Main(m))
}

// patient says what it was given, waits to be told to end, and says so.
func patient(ctx context.Context, args []string) error {
	fmt.Println("got", strings.Join(args, "+"))
	<-ctx.Done()
	fmt.Println("told")
	return nil
}

func TestTerm(t *testing.T) {
	t.Parallel()
	p := workerproc.Start(t, "patient", "one", "two")
	p.Await(t, "got one+two")
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	p.Await(t, "told") // also after the end
}

func TestKillStopped(t *testing.T) {
	t.Parallel()
	p := workerproc.Start(t, "patient")
	p.Await(t, "got ")
	p.Signal(t, syscall.SIGSTOP)
	p.Kill(t)
	if code := p.Wait(t); code != -1 {
		t.Errorf("exit code %d, want -1 for a signal", code)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	if code := workerproc.Start(t, "failing").Wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if code := workerproc.Start(t, "unknown").Wait(t); code != 1 {
		t.Errorf("exit code %d for an unknown role, want 1", code)
	}
}

// TestEndsWithTheTest looks for a process after the test that started it.
func TestEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var p *workerproc.Process
	t.Run("inner", func(t *testing.T) {
		p = workerproc.Start(t, "patient")
		p.Await(t, "got ")
	})
	select {
	case <-p.Done():
	default:
		t.Error("the process outlived its test")
	}
}
