package faults

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
)

// TestEveryKindIsNamedOnce: reports and excuses go by the names.
func TestEveryKindIsNamedOnce(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, k := range kinds {
		names[k.name] = true
	}
	if len(names) != len(kinds) {
		t.Errorf("%d kinds have %d names: %v", len(kinds), len(names), slices.Sorted(maps.Keys(names)))
	}
}

// TestKindsAreNamedAsTheyAre: a name that is none would have nothing struck.
func TestKindsAreNamedAsTheyAre(t *testing.T) {
	t.Parallel()
	if two, err := named("reset,disk full"); err != nil || len(two) != 2 || two[0].name != "reset" || two[1].name != "disk full" {
		t.Errorf("%v, %v", two, err)
	}
	if none, err := named("reset,disk ful"); err == nil {
		t.Errorf("%v are of these names", none)
	}
}

// TestAWayWithoutConnectionsIsNotStruck: there is nothing to break, and the fault
// does not count.
func TestAWayWithoutConnectionsIsNotStruck(t *testing.T) {
	t.Parallel()
	proxy, err := faultproxy.Start("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := &stage{workers: []*actor{{proxy: proxy}}, lease: time.Second}
	draw := rand.New(rand.NewPCG(1, 1))
	for name, strike := range map[string]func(*rand.Rand) (string, error){
		"slow network": s.delay, "black hole": s.blackHole, "refused": s.refuse, "server vanished": s.strand, "client vanished": s.abandon, "reset": s.resetAll,
	} {
		if _, err := strike(draw); !errors.Is(err, errMissed) {
			t.Errorf("%s: %v, want that it missed", name, err)
		}
	}
}
