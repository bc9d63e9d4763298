package architecture_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a block of Go in Markdown.
var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

func TestREADMEShowsTheExampleThatIsCompiled(t *testing.T) {
	t.Parallel()
	example := read(t, "cmd", "lockstep", "example_test.go")
	blocks := goBlock.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go in it")
	}
	for _, block := range blocks {
		if !strings.Contains(example, "\n\n"+block[1]) {
			t.Errorf("README.md shows Go that is not in cmd/lockstep/example_test.go:\n%s", block[1])
		}
	}
}

func TestFencingShowsTheExampleThatIsCompiled(t *testing.T) {
	t.Parallel()
	example := read(t, "store", "example_claim_test.go")
	blocks := goBlock.FindAllStringSubmatch(read(t, "docs", "fencing.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/fencing.md has no Go in it")
	}
	for _, block := range blocks {
		inFunction := strings.TrimRight(strings.ReplaceAll("\t"+block[1], "\n", "\n\t"), "\t")
		if !strings.Contains(example, "\n\n"+inFunction) {
			t.Errorf("docs/fencing.md shows Go that is not in store/example_claim_test.go:\n%s", block[1])
		}
	}
}

// folder is a row of the folder map in the README.
var folder = regexp.MustCompile(`(?m)^\| \[([\w/]+)\]\(`)

func TestREADMEMapsEveryFolder(t *testing.T) {
	t.Parallel()
	mapped := make(map[string]bool)
	for _, match := range folder.FindAllStringSubmatch(read(t, "README.md"), -1) {
		mapped[match[1]] = true
	}
	for _, p := range packages(t) {
		top := p.name()
		for _, end := range append([]string{"cmd/lockstep"}, ends...) {
			if within([]string{end}, top) {
				top = end
				break
			}
		}
		if !mapped[top] {
			t.Errorf("%s is not in the folder map of README.md", filepath.Join(module, top))
		}
	}
}
