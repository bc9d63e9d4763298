package producers_test

import (
	"os"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// scaled is the size of a test that works through an amount: short, or, with
// LOCKSTEP_LONG set, long.
func scaled(short, long int) int {
	if os.Getenv("LOCKSTEP_LONG") != "" {
		return long
	}
	return short
}

// length is how long a test that runs by the clock does: LOCKSTEP_LONG, by
// default 2 s.
func length(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("LOCKSTEP_LONG")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LOCKSTEP_LONG: %v", err)
	}
	return d
}
