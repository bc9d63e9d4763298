package migrations

import (
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// render fills a schema's name into a migration.
func (m Migration) render(schema string) string {
	return strings.NewReplacer(
		"@schema@", pgx.Identifier{schema}.Sanitize(),
		"@schema_literal@", quoteLiteral(schema),
	).Replace(renameTags(m.sql, schema))
}

// quoteLiteral escapes backslashes, which functions would otherwise read as
// their session's standard_conforming_strings says.
func quoteLiteral(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if !strings.Contains(text, `\`) {
		return quoted
	}
	return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
}

// dollarTag is what a dollar-quoted string begins and ends with.
var dollarTag = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)?\$`)

// renameTags makes room for a schema with a dollar sign in its name, which
// might end the function bodies that the name stands in.
func renameTags(sql, schema string) string {
	if !strings.Contains(schema, "$") {
		return sql
	}
	suffix := "q"
	for strings.Contains(schema, suffix+"$") {
		suffix += "q"
	}
	return dollarTag.ReplaceAllString(sql, "$$${1}"+suffix+"$$")
}
