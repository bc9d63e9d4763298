package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-pg/lockstep/integration/postgres"
)

// left are packages that need a database and tell nothing of its version.
var left = map[string]string{
	"integration/bench":  "it measures, and tests nothing",
	"integration/prompt": "it measures how prompt signals are",
	"integration/teeth":  "it tests the tests",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

// run tests each major version, and prints the table once all are done.
func run(ctx context.Context, majors []string, stdout, stderr io.Writer) error {
	if len(majors) == 0 {
		return fmt.Errorf("name the major versions to test against: versions 14 15 16 17 18")
	}
	packages, err := databasePackages(ctx)
	if err != nil {
		return err
	}
	var table []result
	var failed []string
	for _, major := range majors {
		r, err := test(ctx, major, packages, stderr)
		if err != nil {
			return fmt.Errorf("PostgreSQL %s: %w", major, err)
		}
		fmt.Fprintln(stderr, r.row())
		table = append(table, r)
		if r.bad() {
			failed = append(failed, major)
		}
	}
	printTable(stdout, table)
	if len(failed) > 0 {
		return fmt.Errorf("failed with PostgreSQL %s", strings.Join(failed, ", "))
	}
	return nil
}

// test runs the packages' tests with one major version. A package that fails
// beside all the others is run once more, alone: what is wrong with a version is
// wrong again.
func test(ctx context.Context, major string, packages []string, stderr io.Writer) (result, error) {
	dir, err := install(ctx, major, stderr)
	if err != nil {
		return result{}, err
	}
	version, err := exec.CommandContext(ctx, dir+"/postgres", "--version").Output()
	if err != nil {
		return result{}, fmt.Errorf("%s/postgres: %w", dir, err)
	}
	begun := time.Now()
	all, err := goTest(ctx, dir, packages, stderr)
	if err != nil {
		return result{}, err
	}
	again := 0
	for _, name := range all.failed() {
		second, err := goTest(ctx, dir, []string{name}, stderr)
		if err != nil {
			return result{}, err
		}
		if len(second) > 0 && len(second.failed()) == 0 {
			maps.Copy(all, second)
			again++
		}
	}
	r := all.sum()
	r.version, r.again, r.took = serverName(string(version)), again, time.Since(begun)
	return r, nil
}

// goTest runs packages' tests with the binaries in dir.
func goTest(ctx context.Context, dir string, packages []string, stderr io.Writer) (runs, error) {
	arguments := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=15m"}, packages...)
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Env = append(os.Environ(), postgres.BinVariable+"="+dir)
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its tests first
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, readErr := read(output, stderr)
	waitErr := cmd.Wait()
	switch {
	case readErr != nil:
		return nil, readErr
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case waitErr != nil && len(r.failed()) == 0:
		return nil, fmt.Errorf("go test: %w", waitErr)
	}
	return r, nil
}

// install gets the binaries of a major version, and tells their folder.
func install(ctx context.Context, major string, stderr io.Writer) (string, error) {
	cmd := exec.CommandContext(ctx, "integration/postgres/install.sh", major)
	cmd.Stderr = stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("installing it: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// serverName is the version in "postgres (PostgreSQL) 17.10".
func serverName(output string) string {
	fields := strings.Fields(output)
	if i := slices.Index(fields, "(PostgreSQL)"); i >= 0 && i+1 < len(fields) {
		return fields[i+1]
	}
	return strings.TrimSpace(output)
}
