package main

import (
	"strings"
	"testing"
)

func TestHelpIsShownOnDemandAndWithoutArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"enqueue", "--help"}, {"migrate", "down", "--help"}} {
		r := call{}.run(t, args...).want(t, exitOK)
		if !strings.Contains(r.stdout, "Usage: lockstep") || r.stderr != "" {
			t.Errorf("lockstep %v: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
}

func TestWrongUsageNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"frobnicate"}, []string{"frobnicate", "see lockstep --help"}},
		{[]string{"migrate"}, []string{`"up"`, "see lockstep migrate --help"}},
		{[]string{"migrate", "down"}, []string{"--drop-everything", `"lockstep"`}},
		{[]string{"migrate", "up", "--shema", "x"}, []string{"--shema", "--schema"}},
		{[]string{"enqueue", "--kind", "k", "--priority", "high"}, []string{"--priority", `"high"`}},
		{[]string{"enqueue", "--kind", "k", "--priority", "99999999999"}, []string{"--priority"}},
		{[]string{"enqueue", "--kind", "a\xffb"}, []string{"--kind", "UTF-8"}},
		{[]string{"enqueue", "--kind=a\xffb"}, []string{"--kind", "UTF-8"}},
		{[]string{"\xff"}, []string{"UTF-8"}},
		{[]string{"enqueue", "--kind", "k", "--delay", "soon"}, []string{"--delay", `"soon"`}},
		{[]string{"enqueue", "--kind", "k", "--delay", "5"}, []string{"--delay", `"5"`}},
		{[]string{"enqueue", "--kind", "k", "--run-at", "tomorrow"}, []string{"--run-at", `"tomorrow"`, "RFC 3339"}},
		{[]string{"enqueue", "--kind", "k", "--run-at", "10000-01-01T00:00:00Z"}, []string{"--run-at", "before the year 10000"}},
		{[]string{"enqueue", "--kind", "k", "--run-at", ""}, []string{"--run-at"}},
		{[]string{"enqueue"}, []string{"--kind", "--file", "see lockstep enqueue --help"}},
		{[]string{"enqueue", "--queue", "q"}, []string{"--kind"}},
		{[]string{"enqueue", "--ordering-key", "", "--file", "-"}, []string{"--ordering-key", "--file"}},
		{[]string{"migrate", "up", "--database-url", ""}, []string{"--database-url is empty"}},
		{[]string{"migrate", "down", "--schema=", "--drop-everything"}, []string{"--schema is empty"}},
		{[]string{"enqueue", "--kind", "k", "--file", "-"}, []string{"--kind", "--file"}},
		{[]string{"enqueue", "--header", "a=b", "--file", "-"}, []string{"--header", "--file"}},
		{[]string{"enqueue", "--kind", "k", "--in-parts"}, []string{"--in-parts", "--file"}},
		{[]string{"enqueue", "--file", "/nowhere/jobs.ndjson"}, []string{"--file", "/nowhere/jobs.ndjson"}},
		{[]string{"demo", "--length", "10ms"}, []string{"--length", "10ms"}},
		{[]string{"version", "--log-level", "loud"}, []string{"--log-level", "loud"}},
		{[]string{"migrate", "up", "--database-url", "x", "--database-url-file", "y"}, []string{"--database-url", "--database-url-file"}},
	} {
		r := call{}.run(t, test.args...).want(t, exitUsage, test.says...)
		if r.stdout != "" {
			t.Errorf("lockstep %v wrote to stdout: %q", test.args, r.stdout)
		}
	}
}

func TestVersionNamesTheProgram(t *testing.T) {
	t.Parallel()
	r := call{}.run(t, "version").want(t, exitOK)
	if !strings.HasPrefix(r.stdout, "lockstep ") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("stdout = %q", r.stdout)
	}
}
