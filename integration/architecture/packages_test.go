// Package architecture_test holds the whole tree to its rules: which package
// may know which, that everything is documented, and that what the documents
// say is what the code says.
package architecture_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// module is the path that all our packages begin with.
const module = "github.com/lockstep-pg/lockstep"

// root is the top of the tree, seen from this folder.
var root = filepath.Join("..", "..")

// goPackage is what the Go tool tells about a package.
type goPackage struct {
	Dir          string
	ImportPath   string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
}

// name is the package's path below the module.
func (p goPackage) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// files are the package's files for this system, tests included.
func (p goPackage) files() []string {
	var all []string
	for _, names := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range names {
			all = append(all, filepath.Join(p.Dir, name))
		}
	}
	return all
}

// listPackages asks the Go tool for all packages, once.
var listPackages = sync.OnceValues(func() ([]goPackage, error) {
	output, err := goTool("list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports", "./...")
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// packages are all packages of the module.
func packages(t *testing.T) []goPackage {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func goTool(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	output, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, errors.New("go " + strings.Join(args, " ") + ": " + string(exit.Stderr))
	}
	return output, err
}

// read returns a file of the tree.
func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
