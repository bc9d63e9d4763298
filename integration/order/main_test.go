package order_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

var (
	runs = flag.Int("order.runs", 0, "how many `runs` of full size TestOrder does, and at most as many as five TestTeeth; 0: small ones")
	seed = flag.Uint64("order.seed", 0, "the `seed` of the first run, the others count on from it; 0: a random one")
	long = flag.Duration("order.exchange", 3*time.Second, "how long TestHandlersEnqueueToEachOther exchanges jobs")
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }
