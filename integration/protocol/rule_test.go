package protocol_test

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lockstep-pg/lockstep/migrations"
)

// rule is what the SQL does because the opposite was seen to go wrong.
type rule struct {
	must string // what must hold

	// without are ways to take the rule out of the SQL, each by itself, by name.
	without map[string]cut

	// tuned are edits of numbers, made in every build of the test, so that it
	// need not wait for as long as people would.
	tuned []edit

	// scene ends well where the rule holds.
	scene func(*scene)
}

// cut takes a rule out.
type cut struct {
	edits []edit
	seen  string // must be part of what then goes wrong
}

// edit replaces a text that must be in the files exactly once.
type edit struct{ old, new string }

// prove plays a rule's scene on the SQL as it is, and without the rule.
func prove(t *testing.T, r rule) {
	t.Helper()
	t.Parallel()
	t.Run("holds", func(t *testing.T) {
		t.Parallel()
		var files fs.FS
		if r.tuned != nil {
			files = edited(t, r.tuned)
		}
		if err := play(t, files, r.scene); err != nil {
			t.Error(err)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(r.without)) {
		c := r.without[name]
		t.Run("without/"+name, func(t *testing.T) {
			t.Parallel()
			err := play(t, edited(t, append(slices.Clone(r.tuned), c.edits...)), r.scene)
			switch {
			case err == nil:
				t.Error("the scene ends well without the rule")
			case c.seen == "" || !strings.Contains(err.Error(), c.seen):
				t.Errorf("without the rule it went wrong otherwise than was seen: %v\nwant: %s", err, c.seen)
			default:
				t.Log("without the rule:", err)
			}
		})
	}
}

// edited are the program's migrations with texts replaced.
func edited(t testing.TB, edits []edit) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(migrations.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(migrations.Files(), path)
		files[path] = &fstest.MapFile{Data: data, Mode: 0o444}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		found := 0
		for _, file := range files {
			found += bytes.Count(file.Data, []byte(e.old))
			file.Data = bytes.ReplaceAll(file.Data, []byte(e.old), []byte(e.new))
		}
		if found != 1 {
			t.Fatalf("found %d times, must be there once:\n%s", found, e.old)
		}
	}
	return files
}
