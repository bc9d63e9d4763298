package teeth

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var bite = flag.Bool("teeth", false, "build every mutant and run the tests that must turn red")

// tries is how often a mutant that only shows by chance gets its chance. Every
// run has seeds of its own.
const tries = 6

// TestTeeth builds each mutant and has the tests run that must catch it. It
// prints which did.
func TestTeeth(t *testing.T) {
	if !*bite {
		return // TestMutantsFit has checked what can be checked at once
	}
	report := &report{}
	t.Run("mutants", func(t *testing.T) {
		turns := make(chan struct{}, 2) // builds are what takes time
		for _, m := range mutants {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				began := time.Now()
				red := m.bite(t)
				report.add(m.name, red, time.Since(began))
			})
		}
	})
	t.Logf("\n%s", report)
}

// bite runs the mutant's tests until each has turned red, and returns those that
// did, with the number of their try if it was not the first.
func (m mutant) bite(t *testing.T) (red []string) {
	overlay := m.overlay(t)
	for _, s := range m.suites {
		left := s.tests
		for try := 1; try <= tries && len(left) > 0; try++ {
			caught := s.run(t, overlay, left)
			for _, name := range caught {
				if try > 1 {
					name = fmt.Sprintf("%s (try %d)", name, try)
				}
				red = append(red, name)
			}
			left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return slices.Contains(caught, name) })
		}
		for _, name := range left {
			t.Errorf("%s/%s stays green with %s", s.pkg, name, m.name)
		}
	}
	return red
}

// report is the table.
type report struct {
	mu   sync.Mutex
	rows []string
}

func (r *report) add(name string, red []string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("%s\t%s\t%v", name, strings.Join(red, ", "), took.Round(time.Second)))
}

// String is a table of mutants and the tests that turned red.
func (r *report) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "mutant\tturned red\ttook")
	for _, row := range slices.Sorted(slices.Values(r.rows)) {
		fmt.Fprintln(table, row)
	}
	_ = table.Flush() // a Builder takes all
	return text.String()
}
