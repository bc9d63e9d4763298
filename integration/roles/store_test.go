package roles

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// forOwners are files of package store whose methods are for the schema's owner.
var forOwners = []string{"adopt.go", "grant.go"}

// TestWhatTheStoreCallsCanBeGranted: a function that package store calls is in
// one of the parts, or a program with granted rights would be refused.
func TestWhatTheStoreCallsCanBeGranted(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	granted := testdb.Value[[]string](t, db, `select array_agg(distinct f)
		from unnest('{everyone,producer,keys,worker,operator,reader,payload,tenant}'::text[]) p, unnest(lockstep.part_functions(p)) f`)
	files, err := filepath.Glob("../../store/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of package store: %v", err)
	}
	call := regexp.MustCompile(`@schema@\.([a-z_]+)\(`)
	called := 0
	for _, file := range files {
		if slices.Contains(forOwners, filepath.Base(file)) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range call.FindAllStringSubmatch(string(source), -1) {
			called++
			if name := match[1]; !slices.Contains(granted, name) {
				t.Errorf("%s calls %s, which no part has", filepath.Base(file), name)
			}
		}
	}
	if called < 20 {
		t.Errorf("found only %d calls", called)
	}
}
