package languages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the reference of SQL, in the order in which their examples run.
var pages = []string{"sql.md", "sql-operators.md"}

// page reads one of them.
func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// example is a statement of a page, and what the page says of it.
type example struct {
	sql  string
	data string   // what follows a COPY … FROM STDIN
	rows []string // "-- → …": the rows that come back; none: not said
	code string   // "-- ! …": the SQLSTATE it fails with
}

var (
	sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")
	fromHere = regexp.MustCompile(`(?i)^copy .* from stdin;`)
	itsEnd   = regexp.MustCompile(`;(\s+--.*)?$`)
)

// examplesOf are the statements of a page, in order. A statement ends with a line
// that ends in a semicolon, but for a comment.
func examplesOf(page string) []example {
	var found []example
	for _, block := range sqlBlock.FindAllStringSubmatch(page, -1) {
		var sql []string
		copying := false
		for line := range strings.Lines(block[1]) {
			last := len(found) - 1
			row, isRow := strings.CutPrefix(strings.TrimSpace(line), "-- →")
			code, isCode := strings.CutPrefix(strings.TrimSpace(line), "-- !")
			switch {
			case copying:
				if copying = line != "\\.\n"; copying {
					found[last].data += line
				}
			case isRow:
				found[last].rows = append(found[last].rows, strings.TrimSpace(row))
			case isCode:
				found[last].code = strings.TrimSpace(code)
			default:
				sql = append(sql, line)
				if itsEnd.MatchString(strings.TrimSpace(line)) {
					found = append(found, example{sql: strings.TrimSpace(strings.Join(sql, ""))})
					copying = fromHere.MatchString(line)
					sql = nil
				}
			}
		}
		if sql != nil {
			found = append(found, example{sql: strings.Join(sql, "")})
		}
	}
	return found
}

// fits tells whether a row is what a page says, where … stands for anything.
func fits(want, row string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString(row)
}
