package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store/verify"
)

// printReport writes a report for a person: a line for every finding.
func printReport(w io.Writer, report verify.Report) error {
	out := bufio.NewWriter(w)
	c := report.Checked
	fmt.Fprintf(out, "schema %q at %s\n", report.Schema, report.LookedAt.UTC().Format(time.RFC3339))
	fmt.Fprintf(out, "read       %d live jobs, %d finished, %d dead, and %d attempts before a job's last, in %d lanes\n",
		c.Live, c.Finished, c.Dead, c.Attempts, c.Lanes)
	if report.CommitTimes {
		fmt.Fprintf(out, "order      by the commit times of %d jobs; for %d the server has none\n", c.Timed, c.Untimed)
	}
	if ids := c.IDs; ids.Given > 0 {
		fmt.Fprintf(out, "ids        %d given: %d live, %d completed, %d cancelled, %d dead, %d missing, %d discarded or of a time of which no history is kept\n",
			ids.Given, ids.Live, ids.Completed, ids.Cancelled, ids.Dead, ids.Missing, ids.NotOnRecord)
	}
	for _, f := range report.Findings {
		fmt.Fprintf(out, "finding    %v\n", f)
	}
	for _, f := range report.Notices {
		fmt.Fprintf(out, "notice     %v\n", f)
	}
	fmt.Fprintf(out, "findings   %s\n", totals(report, false))
	if len(report.Notices) > 0 {
		fmt.Fprintf(out, "notices    %s\n", totals(report, true))
	}
	return out.Flush()
}

// totals counts the findings, or the notices, by class.
func totals(report verify.Report, notices bool) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(report.Totals)) {
		if class.Notice() == notices && report.Totals[class] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", report.Totals[class], class))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
