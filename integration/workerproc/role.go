package workerproc

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// roleVariable is the environment variable that makes the binary play a role.
const roleVariable = "LOCKSTEP_TEST_ROLE"

// Role is what a process does: it returns when it is done, or soon after its
// context ended, which is at SIGTERM or SIGINT. An error is printed and
// becomes exit code 1.
type Role func(ctx context.Context, args []string) error

// roles are filled in by TestMain, before anything else runs.
var roles = map[string]Role{}

// Register names a role for Start. It is called in TestMain, before Main.
func Register(name string, role Role) { roles[name] = role }

// Main plays the role that the process was started for; without one it runs
// the package's tests, as testdb.Main does. It returns the exit code for
// TestMain.
func Main(m *testing.M) int {
	name, ok := os.LookupEnv(roleVariable)
	if !ok {
		return testdb.Main(m)
	}
	if err := play(name, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func play(name string, args []string) error {
	role := roles[name]
	if role == nil {
		return fmt.Errorf("no such role is registered")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return role(ctx, args)
}
