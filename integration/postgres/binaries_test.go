package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBinaries makes a folder with an initdb, and a postgres that tells a
// version.
func fakeBinaries(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindBinariesOnPath(t *testing.T) {
	base := reachableTempDir(t)
	link := filepath.Join(base, "links")
	real := fakeBinaries(t, filepath.Join(base, "real"), "16.3 (Some 16.3-1)")
	if err := os.Mkdir(link, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(link, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(BinVariable, "")
	t.Setenv("PATH", link+":"+os.Getenv("PATH"))
	if got, err := FindBinaries(); got != real {
		t.Errorf("found %q (%v), want %q", got, err, real)
	}
}

func TestFindBinariesSkipsTheOld(t *testing.T) {
	old := fakeBinaries(t, filepath.Join(reachableTempDir(t), "old"), "13.9")
	t.Setenv(BinVariable, "")
	t.Setenv("PATH", old+":"+os.Getenv("PATH"))
	if got, err := FindBinaries(); got == old {
		t.Errorf("took version 13 (%v)", err)
	}
}

// TestBinVariable: the folder named is used, or refused, and nothing else is
// looked for.
func TestBinVariable(t *testing.T) {
	base := reachableTempDir(t)
	named := fakeBinaries(t, filepath.Join(base, "named"), "18.1")
	t.Setenv(BinVariable, named)
	if got, err := FindBinaries(); got != named {
		t.Errorf("found %q (%v), want %q", got, err, named)
	}
	for _, dir := range []string{filepath.Join(base, "missing"), fakeBinaries(t, filepath.Join(base, "old"), "13.9")} {
		t.Setenv(BinVariable, dir)
		if got, err := FindBinaries(); !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), dir) {
			t.Errorf("found %q (%v) where %s names %s", got, err, BinVariable, dir)
		}
	}
}

func TestMajorIn(t *testing.T) {
	t.Parallel()
	base := reachableTempDir(t)
	for version, want := range map[string]int{"14.0": 14, "15.18 (Debian 15.18-0+deb12u1)": 15, "19beta1": 19, "": 0} {
		dir := fakeBinaries(t, filepath.Join(base, "v"+version), version)
		if got := majorIn(dir); got != want {
			t.Errorf("%q is major %d, want %d", version, got, want)
		}
	}
	withoutInitdb := fakeBinaries(t, filepath.Join(base, "client"), "17.1")
	if err := os.Remove(filepath.Join(withoutInitdb, "initdb")); err != nil {
		t.Fatal(err)
	}
	if got := majorIn(withoutInitdb); got != 0 {
		t.Errorf("a folder without initdb is major %d", got)
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, version := range []string{"9", "17", "14"} {
		if err := os.MkdirAll(filepath.Join(base, version, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var versions []string
	for _, dir := range newestFirst(filepath.Join(base, "*", "bin")) {
		versions = append(versions, filepath.Base(filepath.Dir(dir)))
	}
	if got := strings.Join(versions, " "); got != "17 14 9" {
		t.Errorf("order %s", got)
	}
}

func TestBrokenBinDir(t *testing.T) {
	t.Parallel()
	base := reachableTempDir(t)
	_, err := Start(testContext(t), Config{BinDir: filepath.Join(base, "missing")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("started from a folder that does not exist: %v", err)
	}
	if command := installCommand(); strings.ContainsAny(command, "\n") || command == "" {
		t.Errorf("not one line: %q", command)
	}
}
