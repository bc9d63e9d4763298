package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// result is what came of the tests with one version.
type result struct {
	version string
	counts
	packages, again int  // again: failed, and passed in a run of their own
	broken          bool // go test itself ended in failure
	took            time.Duration
}

// counts are of tests; red tells that their package failed.
type counts struct {
	passed, failed, skips int
	red                   bool
}

// bad is a version that does not count as tested with success.
func (r result) bad() bool { return r.broken || r.failed > 0 || r.passed == 0 }

const head = "| PostgreSQL | packages | tests passed | failed | skipped | took |\n|---|---|---|---|---|---|"

func (r result) row() string {
	mark, again := "", ""
	if r.bad() {
		mark = " **failed**"
	}
	if r.again > 0 {
		again = fmt.Sprintf(" (%d tried twice)", r.again)
	}
	return fmt.Sprintf("| %s%s | %d%s | %d | %d | %d | %.0f s |", r.version, mark, r.packages, again, r.passed, r.failed, r.skips, r.took.Seconds())
}

func printTable(w io.Writer, table []result) {
	fmt.Fprintln(w, head)
	for _, r := range table {
		fmt.Fprintln(w, r.row())
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// runs are what came of packages.
type runs map[string]counts

// failed are the packages that did.
func (r runs) failed() (packages []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if r[name].red {
			packages = append(packages, name)
		}
	}
	return packages
}

// sum adds them up.
func (r runs) sum() (sum result) {
	for _, c := range r {
		sum.packages++
		sum.passed, sum.failed, sum.skips, sum.broken = sum.passed+c.passed, sum.failed+c.failed, sum.skips+c.skips, sum.broken || c.red
	}
	return sum
}

// read counts what go test -json tells. What a failed or skipped test printed
// goes to failures, and what a failed package printed outside its tests, such as
// the stacks of one that ran out of time.
func read(events io.Reader, failures io.Writer) (runs, error) {
	r := make(runs)
	printed := make(map[string]*strings.Builder)
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return r, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return r, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(failures, "%s", line) // go's own words, about a build say
			continue
		}
		r.count(e, printed, failures)
	}
}

func (r runs) count(e event, printed map[string]*strings.Builder, failures io.Writer) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if printed[name] == nil {
			printed[name] = &strings.Builder{}
		}
		printed[name].WriteString(e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Action != "pass" && printed[name] != nil && (e.Test != "" || e.Action == "fail") {
		fmt.Fprintf(failures, "%s in %s\n%s", e.Action, name, printed[name])
	}
	delete(printed, name)
	c := r[e.Package]
	switch {
	case e.Test == "":
		c.red = e.Action == "fail"
	case e.Action == "pass":
		c.passed++
	case e.Action == "fail":
		c.failed++
	default:
		c.skips++
	}
	r[e.Package] = c
}
