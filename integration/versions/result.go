package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// result is what came of the tests with one version.
type result struct {
	version                         string
	packages, passed, failed, skips int
	broken                          bool // go test itself ended in failure
	took                            time.Duration
}

// bad is a version that does not count as tested with success.
func (r result) bad() bool { return r.broken || r.failed > 0 || r.passed == 0 }

const head = "| PostgreSQL | packages | tests passed | failed | skipped | took |\n|---|---|---|---|---|---|"

func (r result) row() string {
	mark := ""
	if r.bad() {
		mark = " **failed**"
	}
	return fmt.Sprintf("| %s%s | %d | %d | %d | %d | %.0f s |", r.version, mark, r.packages, r.passed, r.failed, r.skips, r.took.Seconds())
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

// read counts what go test -json tells. What a failed or skipped test printed
// goes to failures, and what a failed package printed outside its tests, such as
// the stacks of one that ran out of time.
func read(events io.Reader, failures io.Writer) (result, error) {
	var r result
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

func (r *result) count(e event, printed map[string]*strings.Builder, failures io.Writer) {
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
	switch {
	case e.Test == "":
		r.packages++
	case e.Action == "pass":
		r.passed++
	case e.Action == "fail":
		r.failed++
	default:
		r.skips++
	}
}
