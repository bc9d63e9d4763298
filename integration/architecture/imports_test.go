package architecture_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// may lists what a package may import of ours, by folder. Folders below one that
// is listed follow the same rule, unless they are listed themselves. The arrows
// run one way; cmd and integration are the ends and may use everything.
var may = map[string][]string{
	"migrations":             {},
	"store":                  {},
	"store/verify":           {"store"},
	"listener":               {},
	"locks":                  {},
	"dispatcher":             {"migrations", "store", "listener", "locks"},
	"handler":                {"dispatcher"},
	"schedule":               {"store"},
	"web":                    {"store", "dispatcher"},
	"integration/postgres":   {"integration/postgres"},
	"integration/faultproxy": {},
}

// libraries are what the packages that a service embeds may import of others:
// little, as each becomes a dependency of that service.
var libraries = []string{
	"github.com/jackc/pgx/v5",
	"github.com/jackc/pgxlisten",
	"github.com/cenkalti/backoff/v4",
	"golang.org/x/sync",
}

// more are libraries that one package may import besides.
var more = map[string][]string{
	"handler": {"github.com/standard-webhooks/standard-webhooks/libraries/go"},
}

// embedded are the packages that a service embeds.
var embedded = []string{"migrations", "store", "listener", "locks", "dispatcher", "handler", "schedule"}

// ends are the folders that may import everything.
var ends = []string{"cmd", "integration"}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, p := range packages(t) {
		allowed, ruled := ruleFor(p.name())
		if !ruled {
			if !within(ends, p.name()) {
				t.Errorf("%s has no place in the architecture: see the folder map in README.md", p.ImportPath)
			}
			continue
		}
		for _, path := range p.Imports {
			checked++
			if !permitted(path, p.name(), allowed) {
				t.Errorf("%s must not import %s", p.name(), path)
			}
		}
	}
	if checked == 0 {
		t.Fatal("no import was looked at")
	}
}

// ruleFor finds the closest rule above a folder.
func ruleFor(name string) ([]string, bool) {
	for folder := name; folder != ""; {
		if allowed, ok := may[folder]; ok {
			return allowed, true
		}
		slash := strings.LastIndexByte(folder, '/')
		folder = folder[:max(slash, 0)]
	}
	return nil, false
}

func permitted(path, name string, allowed []string) bool {
	ours, isOurs := strings.CutPrefix(path, module+"/")
	first, _, _ := strings.Cut(path, "/")
	switch {
	case isOurs:
		return within(allowed, ours) || strings.HasPrefix(ours, name+"/")
	case !strings.Contains(first, "."), !within(embedded, name):
		return true // the standard library; or nothing that a service embeds
	default:
		return within(libraries, path) || within(more[name], path)
	}
}

// within tells whether a folder is one of folders or below one.
func within(folders []string, folder string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return folder == f || strings.HasPrefix(folder, f+"/")
	})
}

func TestArrowsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"store", "context", true},
		{"store", "github.com/jackc/pgx/v5/pgconn", true},
		{"store", "github.com/jackc/pgx/v55", false},
		{"store", "github.com/alecthomas/kong", false},
		{"store", module + "/locks", false},
		{"store", module + "/store/internal/x", true},
		{"listener", module + "/dispatcher", false},
		{"dispatcher", module + "/store", true},
		{"dispatcher", module + "/integration/postgres", false},
		{"integration/postgres", module + "/migrations", false},
		{"web", "github.com/prometheus/client_golang/prometheus", true},
	} {
		allowed, _ := ruleFor(test.from)
		if got := permitted(test.to, test.from, allowed); got != test.want {
			t.Errorf("%s may import %s: %v, want %v", test.from, test.to, got, test.want)
		}
	}
}

func TestTopLevelFoldersAreTheOnesOfTheMap(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() || strings.HasPrefix(name, ".") || name == "docs" {
			continue
		}
		if _, ruled := may[name]; !ruled && !slices.Contains(ends, name) {
			t.Errorf("the folder %s has no place in the architecture", name)
		}
	}
}

func TestBinaryDoesNotLinkTesting(t *testing.T) {
	t.Parallel()
	output, err := goTool("list", "-deps", "./cmd/lockstep")
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(output))
	if !slices.Contains(linked, module+"/store") {
		t.Fatalf("go list -deps tells too little: %q", linked)
	}
	for _, path := range linked {
		if path == "testing" || strings.HasPrefix(path, "testing/") {
			t.Errorf("cmd/lockstep links %s", path)
		}
	}
}
