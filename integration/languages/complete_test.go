package languages

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// public are the names that are for callers: functions that a role may be given,
// or that nothing else in the schema calls, and views.
const public = `
	select distinct p.proname::text from pg_proc p
	 where p.pronamespace = 'lockstep'::regnamespace and p.prorettype <> 'trigger'::regtype
	   and (exists (select from unnest($1::text[]) r where has_function_privilege(r, p.oid, 'execute'))
	        or not exists (select from pg_proc q where q.pronamespace = p.pronamespace and q.oid <> p.oid
	                          and pg_get_functiondef(q.oid) ~ ('lockstep"?\.' || p.proname || '\(')))
	union
	select c.relname::text from pg_class c where c.relnamespace = 'lockstep'::regnamespace and c.relkind = 'v'`

// TestReferenceIsComplete: what is for callers has a heading, or a row of a
// table, in the reference and is used in an example; or it is named there as
// not for callers. And what has one is there.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	var roles []string
	for _, part := range []string{"producer", "worker", "operator", "reader", "tenant"} {
		role := db.Name + "_" + part
		db.Exec(t, "create role "+role)
		t.Cleanup(func() { db.Exec(t, "drop owned by "+role+" cascade; drop role "+role) })
		db.Exec(t, "select lockstep.grant_"+part+"($1)", role)
		roles = append(roles, role)
	}
	rows, _ := db.Conn(t).Query(t.Context(), public, roles)
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(there) < 50 {
		t.Fatal(there, err)
	}
	documented, parts, examples := namesOf(t)
	for _, name := range there {
		if !documented[name] && !parts[name] {
			t.Errorf("%s has no heading and no row in docs/sql.md and docs/sql-operators.md", name)
		}
	}
	for name := range documented {
		if !slices.Contains(there, name) || parts[name] {
			t.Errorf("the reference has %s, which is not there for callers", name)
		}
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(examples) {
			t.Errorf("%s is in no example of the reference", name)
		}
	}
	for name := range parts {
		if !slices.Contains(there, name) {
			t.Errorf("the reference names %s as not for callers, and no role may execute it", name)
		}
	}
}

var (
	headings = regexp.MustCompile(`^### ([a-z_]+(?: · [a-z_]+)*)\n`)
	rowsOf   = regexp.MustCompile(`^\| (?:function|view)`)
	inRow    = regexp.MustCompile("`([a-z_]+)(?:\\(|`)")
	quoted   = regexp.MustCompile("`([a-z_]+)`")
)

// namesOf are the names that the reference documents, those that it calls not
// for callers, and its examples.
func namesOf(t *testing.T) (documented, parts map[string]bool, examples string) {
	t.Helper()
	documented, parts = make(map[string]bool), make(map[string]bool)
	for _, name := range pages {
		text, others, _ := strings.Cut(page(t, name), "\n## Not for callers\n")
		for _, match := range quoted.FindAllStringSubmatch(others, -1) {
			parts[match[1]] = true
		}
		for _, match := range sqlBlock.FindAllStringSubmatch(text, -1) {
			examples += match[1]
		}
		inTable := false // of functions or views
		for line := range strings.Lines(text) {
			if match := headings.FindStringSubmatch(line); match != nil {
				for _, name := range strings.Split(match[1], " · ") {
					documented[name] = true
				}
			}
			inTable = strings.HasPrefix(line, "|") && (inTable || rowsOf.MatchString(line))
			if !inTable {
				continue
			}
			first, _, _ := strings.Cut(line[1:], "|")
			for _, match := range inRow.FindAllStringSubmatch(first, -1) {
				documented[match[1]] = true
			}
		}
	}
	return documented, parts, examples
}
