package testdb

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lockstep-pg/lockstep/migrations"
)

// Edit is one change to a migration.
type Edit struct {
	File string // its name, as in 0010_claim.sql
	Old  string // what to replace; it has to be there exactly once
	New  string
}

// Changed is a copy of this program's set of migrations with edits made to it,
// for NewFrom.
func Changed(t testing.TB, edits ...Edit) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files(), "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := fs.ReadFile(migrations.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: content}
	}
	for _, edit := range edits {
		file, ok := files[edit.File]
		if !ok {
			t.Fatalf("there is no migration %s", edit.File)
		}
		if n := strings.Count(string(file.Data), edit.Old); n != 1 {
			t.Fatalf("%s has %d times, not once: %s", edit.File, n, edit.Old)
		}
		file.Data = []byte(strings.Replace(string(file.Data), edit.Old, edit.New, 1))
	}
	return files
}
