package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// module is what the paths of our packages begin with.
const module = "github.com/lockstep-pg/lockstep/"

// reach lists, for each package, what its tests are built of.
const reach = `{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}`

// databasePackages are the packages whose tests start a server, without those
// left out.
func databasePackages(ctx context.Context) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-test", "-f", reach, module+"...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("go list: %s", bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	return chosen(string(output)), nil
}

// chosen reads go list's lines: a package, and all that its tests need.
func chosen(list string) (packages []string) {
	for line := range strings.Lines(list) {
		needs := strings.Fields(line)
		if len(needs) == 0 {
			continue
		}
		path := needs[0]
		if _, out := left[strings.TrimPrefix(path, module)]; out {
			continue
		}
		if path == module+"integration/postgres" || slices.ContainsFunc(needs[1:], startsServers) {
			packages = append(packages, path)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// startsServers tells of integration/postgres, as built for a test or not.
func startsServers(dependency string) bool {
	return strings.HasPrefix(dependency, module+"integration/postgres")
}
