package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestChosen(t *testing.T) {
	t.Parallel()
	got := chosen(strings.Join([]string{
		module + "store fmt " + module + "integration/postgres",
		module + "store fmt " + module + "integration/postgres", // in-package and external tests
		"", "\n",
		module + "cmd fmt " + module + "integration/postgres [" + module + "cmd.test]",
		module + "integration/bench fmt " + module + "integration/postgres",
		module + "docs fmt",
	}, "\n"))
	if want := module + "cmd " + module + "store"; strings.Join(got, " ") != want {
		t.Errorf("chose %q, want %q", got, want)
	}
}

// TestOwnPackages: the tests that matter most are among those that are run.
func TestOwnPackages(t *testing.T) {
	t.Parallel()
	packages, err := databasePackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(packages, " ") + " "
	for name, want := range map[string]bool{
		"store": true, "integration/protocol": true, "integration/postgres": true, "integration/bench": false, "integration/architecture": false,
	} {
		if strings.Contains(all, module+name+" ") != want {
			t.Errorf("%s is run: want %v", name, want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"loud\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestNot","Output":"why\n"}
{"Action":"skip","Package":"p","Test":"TestNot"}
{"Action":"output","Package":"p","Output":"panic\n"}
{"Action":"fail","Package":"p"}
not JSON
{"Action":"skip","Package":"q"}`
	var failures bytes.Buffer
	r, err := read(strings.NewReader(events), &failures)
	if err != nil {
		t.Fatal(err)
	}
	if sum := r.sum(); sum != (result{packages: 2, counts: counts{passed: 1, failed: 1, skips: 1}, broken: true}) || !sum.bad() {
		t.Errorf("counted %+v", sum)
	}
	if bad := r.failed(); !slices.Equal(bad, []string{"p"}) {
		t.Errorf("failed: %v", bad)
	}
	for _, word := range []string{"fail in p TestBad\nloud", "skip in p TestNot\nwhy", "panic", "not JSON"} {
		if !strings.Contains(failures.String(), word) {
			t.Errorf("%q is not told:\n%s", word, failures.String())
		}
	}
	if strings.Contains(failures.String(), "quiet") {
		t.Errorf("what a test printed that passed is told:\n%s", failures.String())
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	for _, r := range []result{{}, {counts: counts{passed: 1}, broken: true}, {counts: counts{passed: 1, failed: 1}}} {
		if !r.bad() || !strings.Contains(r.row(), "failed") {
			t.Errorf("%+v passes for good", r)
		}
	}
	r := result{packages: 2, counts: counts{passed: 1}, again: 1}
	if r.bad() || !strings.Contains(r.row(), "2 (1 tried twice)") {
		t.Errorf("%s", r.row())
	}
}

func TestServerName(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"postgres (PostgreSQL) 17.10\n": "17.10", "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "15.18", "odd\n": "odd",
	} {
		if got := serverName(output); got != want {
			t.Errorf("%q is %q, want %q", output, got, want)
		}
	}
}
