package order_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestOrder is the promise of commit order, one at a time, serial through
// retries, with nothing lost. See the package comment for the full size.
func TestOrder(t *testing.T) {
	t.Parallel()
	for n := range max(*runs, 1) {
		seed := runSeed(n)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			began := time.Now()
			v := sized(small()).do(t, testdb.New(t), seed)
			if v.faults() > 0 {
				t.Errorf("broken promises; to repeat: -order.seed=%d\n%v", seed, v)
			} else {
				t.Logf("%v after %v", v, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// sized is the full plan where full runs are asked for.
func sized(p plan) plan {
	if *runs > 0 {
		return full()
	}
	return p
}

func runSeed(n int) uint64 {
	if *seed != 0 {
		return *seed + uint64(n)
	}
	return rand.Uint64N(1 << 32)
}
