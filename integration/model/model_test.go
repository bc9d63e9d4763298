package model_test

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"rapid.nofailfile": "true", // the seed that is printed is enough
		"rapid.checks":     "100",
		"rapid.steps":      "60",
	} {
		if err := flag.Set(name, value); err != nil { // a flag that is given wins
			panic(err)
		}
	}
	os.Exit(testdb.Main(m))
}

// TestModel has random sequences of steps come to the same by the SQL and by
// the model.
func TestModel(t *testing.T) {
	t.Parallel()
	s := newStage(t, testdb.New(t))
	rapid.Check(t, s.run)
}

// run is one sequence.
func (s *stage) run(t *rapid.T) {
	w := s.enter(t)
	steps := w.steps()
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { w.Compare() },
		"step": func(*rapid.T) {
			for range 6 { // else nothing happens this time
				if attempt(one(w, "step", steps...)) {
					return
				}
			}
		},
	})
}

// steps are all there are, the more often the likelier.
func (w *world) steps() []func() {
	var all []func()
	for _, s := range []struct {
		times int
		step  func()
	}{
		{4, w.Produce},
		{2, w.Begin},
		{3, w.Enqueue},
		{2, w.Commit},
		{1, w.Rollback},
		{1, w.StandInCommit},
		{1, w.LockRow},
		{2, w.CancelInside},
		{7, w.Claim},
		{8, w.Finish},
		{1, w.Extend},
		{2, w.LeaseEnds},
		{3, w.HoldLane},
		{4, w.Settle},
		{1, w.Cancel},
		{2, w.Replay},
		{1, w.Discard},
		{1, w.Unblock},
		{1, w.SkipHead},
		{1, w.SetPolicy},
		{1, w.Delete},
		{3, w.FallsDue},
		{2, w.Due},
		{1, w.Sweep},
	} {
		for range s.times {
			all = append(all, s.step)
		}
	}
	return all
}
