package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

var (
	lengthFlag = flag.Duration("faults.length", 0, "strike every kind of fault, for this long; 0: a few kinds, once each")
	kindsFlag  = flag.String("faults.kinds", "", "strike only these, by their names with commas between")
	seedFlag   = flag.Uint64("faults.seed", 0, "carry out this plan again; 0: draw one")
)

func TestMain(m *testing.M) {
	workerproc.Register(workerRole, work)
	workerproc.Register(producerRole, produce)
	os.Exit(workerproc.Main(m))
}

func drawSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return rand.Uint64N(1 << 32)
}

// TestFaults strikes a queue at work, and has it judged.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := drawSeed()
	chosen, p, lease := shortForm()
	if *lengthFlag > 0 {
		chosen, lease = kinds, 3*time.Second
		p = pace{length: *lengthFlag, between: 600 * time.Millisecond, tolerance: 2**lengthFlag + 5*time.Minute}
	}
	if *kindsFlag != "" {
		var err error
		if chosen, err = named(*kindsFlag); err != nil {
			t.Fatalf("-faults.kinds: %v", err)
		}
	}
	t.Logf("-faults.seed=%d", seed)
	s := newStage(t, seed, lease)
	s.strike(chosen, p)
	s.drain()
	record := s.testimony()
	s.cluster.with(func(ctx context.Context, conn *pgx.Conn) (err error) {
		record, err = record.final(ctx, conn)
		return err
	})
	found := judge(record)
	s.verify(record)
	s.report(os.Stdout, record, chosen)
	complain(t, seed, found)
}

// named are the kinds of these names, with commas between.
func named(names string) (chosen []kind, err error) {
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no kind of fault %q", name)
		}
		chosen = append(chosen, kinds[at])
	}
	return chosen, nil
}

// shortForm is what runs with all the other tests: a fault of each sort that
// needs little time, beside whatever else keeps the machine busy.
func shortForm() ([]kind, pace, time.Duration) {
	var few []kind
	for _, k := range kinds {
		switch k.name {
		case "server crashed", "failover", "worker killed", "producer killed", "commit unanswered", "finish unanswered":
			few = append(few, k)
		}
	}
	return few, pace{between: 300 * time.Millisecond, tolerance: 5 * time.Minute}, 5 * time.Second
}
