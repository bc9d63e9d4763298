package teeth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's folder, seen from this package's.
const root = "../.."

// overlay writes what the mutant changes, and the file that tells go test of it.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	replace := map[string]string{}
	for path, content := range m.edited(t) {
		changed := filepath.Join(folder, fmt.Sprint(len(replace), "_", filepath.Base(path)))
		if err := os.WriteFile(changed, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = changed
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// edited are the files that the mutant changes, by their absolute paths.
func (m mutant) edited(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			t.Fatal(err)
		}
		text, read := files[path]
		if !read {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Fatalf("%s says %d times, not once: %s", e.file, n, e.old)
		}
		files[path] = strings.Replace(text, e.old, e.new, 1)
	}
	return files
}

// TestMutantsFit: every edit still has its place, and every test its name.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			m.edited(t)
			for _, s := range m.suites {
				tests := testsOf(t, s.pkg)
				for _, name := range s.tests {
					if name, _, _ = strings.Cut(name, "/"); !strings.Contains(tests, "\nfunc "+name+"(t *testing.T)") {
						t.Errorf("%s has no %s", s.pkg, name)
					}
				}
			}
		})
	}
}

// testsOf is the text of a package's tests.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no tests: %v", pkg, err)
	}
	var all strings.Builder
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}
