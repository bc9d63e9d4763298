package main

import "regexp"

// Where passwords stand in what people write: between the colon and the last
// at sign of a URL, in a query or key=value string, and quoted there.
var (
	urlPassword    = regexp.MustCompile(`(\w+://[^\s:/@]*):\S*@`)
	quotedPassword = regexp.MustCompile(`(?i)((?:ssl)?password\s*=\s*)'(?:[^'\\]|\\.)*'?`)
	plainPassword  = regexp.MustCompile(`(?i)((?:ssl)?password\s*=\s*)[^\s'&][^\s&]*`)
)

// redact masks passwords in text that may quote a database URL. It is the last
// line: what is known to hold a password is never quoted in the first place.
func redact(text string) string {
	text = urlPassword.ReplaceAllString(text, "$1:xxxxx@")
	text = quotedPassword.ReplaceAllString(text, "${1}xxxxx")
	return plainPassword.ReplaceAllString(text, "${1}xxxxx")
}
