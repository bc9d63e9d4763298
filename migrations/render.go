package migrations

import "strings"

// render fills a schema's name into a migration. An identifier at the start of a
// string, as in nextval('@schema@.turn'), is quoted for both.
func (m Migration) render(schema string) string {
	plain := `"` + strings.ReplaceAll(schema, `"`, `""`) + `"`
	return strings.NewReplacer(
		"'@schema@", strings.TrimSuffix(quoteLiteral(plain), "'"),
		"@schema@", quoteIdentifier(schema),
		"@schema_literal@", quoteLiteral(schema),
	).Replace(m.sql)
}

// quoteIdentifier writes a dollar sign as an escape: two of them would end the
// function body that the name stands in.
func quoteIdentifier(name string) string {
	quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	if !strings.Contains(name, "$") {
		return quoted
	}
	return "U&" + strings.NewReplacer(`\`, `\\`, "$", `\0024`).Replace(quoted)
}

// quoteLiteral escapes what would be read differently by a session with
// standard_conforming_strings off, and the dollar sign.
func quoteLiteral(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if !strings.ContainsAny(text, `\$`) {
		return quoted
	}
	return " E" + strings.NewReplacer(`\`, `\\`, "$", `\x24`).Replace(quoted)
}
