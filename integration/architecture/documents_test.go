package architecture_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// row is a line of the table in docs/errors.md.
var row = regexp.MustCompile("(?m)^\\| (LS[0-9]{3}) \\| `store\\.(\\w+)` \\|")

func TestErrorsTableIsTheOneOfTheCode(t *testing.T) {
	t.Parallel()
	documented := make(map[string]string)
	for _, match := range row.FindAllStringSubmatch(read(t, "docs", "errors.md"), -1) {
		documented[match[1]] = match[2]
	}
	coded := sentinels(t)
	if len(coded) == 0 {
		t.Fatal("no sentinel found in store/errors.go")
	}
	if diff := cmp.Diff(coded, documented); diff != "" {
		t.Errorf("docs/errors.md differs from store/errors.go (-code +docs):\n%s", diff)
	}
}

// sentinels reads the map of SQLSTATEs to errors out of store's source.
func sentinels(t *testing.T) map[string]string {
	found := make(map[string]string)
	ast.Inspect(parse(t, filepath.Join(root, "store", "errors.go")), func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "sentinels" {
			return true
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			pair := element.(*ast.KeyValueExpr)
			code := pair.Key.(*ast.BasicLit).Value
			found[strings.Trim(code, `"`)] = pair.Value.(*ast.Ident).Name
		}
		return false
	})
	return found
}

// raised is a SQLSTATE of ours that SQL raises.
var raised = regexp.MustCompile(`errcode = '(LS[0-9]{3})'`)

func TestEveryRaisedSQLStateHasASentinel(t *testing.T) {
	t.Parallel()
	coded := sentinels(t)
	for name, sql := range migrationFiles(t) {
		for _, match := range raised.FindAllStringSubmatch(sql, -1) {
			caught := strings.Contains(sql, "exception when sqlstate '"+match[1]+"'") // never seen outside
			if _, known := coded[match[1]]; !known && !caught {
				t.Errorf("%s raises %s, which store/errors.go does not know", name, match[1])
			}
		}
	}
}

// transactionTime is every spelling of the transaction's start as a time: in a
// transaction that was opened long ago it is long past.
var transactionTime = regexp.MustCompile(`(?i)\bnow\s*\(\s*\)|\b(?:current_timestamp|localtimestamp|current_time|localtime|current_date)\b|\b(?:transaction|statement)_timestamp\s*\(`)

func TestNoTransactionTimeInSQL(t *testing.T) {
	t.Parallel()
	for name, sql := range migrationFiles(t) {
		for _, match := range transactionTime.FindAllString(sql, -1) {
			t.Errorf("%s uses %s: only clock_timestamp() is the time of the call", name, match)
		}
	}
}

// sqlComment is a comment to the end of the line.
var sqlComment = regexp.MustCompile(`--[^\n]*`)

// migrationFiles are the migrations by name, without their comments.
func migrationFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "migrations", "sql", "*.sql"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no migrations found: %v", err)
	}
	files := make(map[string]string, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = sqlComment.ReplaceAllString(string(content), "")
	}
	return files
}

// link is a relative link in Markdown.
var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	tops, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, tops...)
	links := 0
	for _, document := range documents {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), match[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(document), match[1])
			}
		}
	}
	if links == 0 {
		t.Fatal("no link found")
	}
}
