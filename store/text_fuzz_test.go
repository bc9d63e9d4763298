package store

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// jsonSeeds are what JSON, Go and PostgreSQL could disagree about.
var jsonSeeds = []string{
	``, ` `, `{}`, `null`, `"`, `{"a":`, `[1,]`, `{"a":1,"a":2}`, "\"\t\"", "\ufeff{}", "{}\x00", "\"\xff\"", `"é\/\b"`,
	`{"a":"\u0000"}`, `{"\u0000":1}`, `[[{"a":["x\u0000y"]}]]`, `"\\u0000"`, `"\\\u0000"`, `"\u00000"`,
	`"\ud800"`, `"\uDC00"`, `"\ud83d\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ude00\ud83d"`, `"\ud83dx\ude00"`, `"\ud83d\\ude00"`, `"\uD83D\u0041"`, `"😀"`,
	`9223372036854775807`, `9007199254740993`, `0.1`, `1.0`, `-0`, `1e400`, `1E+5`, `1e131071`, `1e131072`, `10e131071`, `1e-16383`, `1e-16384`,
	`0e999999`, `0e-999999`, `0.0e131073`, `1e99999999999999999999`, `0e99999999999999999999`, `-1.5e-16382`, `0.00001e131076`, `0e1073741823`, `0e1073741822`, `0e-1073741823`, `00`, `1.`, `.5`,
	strings.Repeat("[", 6000) + strings.Repeat("]", 6000), strings.Repeat("9", 131073), "0." + strings.Repeat("1", 16384), "1" + strings.Repeat("0", 131071) + "e1",
}

// FuzzJSONProblem holds our reading of JSON to the server's: what we let pass,
// jsonb takes, and what we refuse, it refuses. From 16 on it takes some numbers
// with a very large exponent, such as 0e1073741823, that 14 and 15 refuse, and
// so do we.
func FuzzJSONProblem(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	conn := testdb.NewEmpty(f).Conn(f)
	var version int
	if err := conn.QueryRow(f.Context(), "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		f.Fatal(err)
	}
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, data []byte) {
		problem := jsonProblem(data)
		mu.Lock()
		defer mu.Unlock()
		_, err := conn.Exec(t.Context(), "select $1::text::jsonb", string(data))
		var refused *pgconn.PgError
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		laxer := version >= 160000 && err == nil && strings.Contains(problem, "beyond PostgreSQL's numeric")
		if (problem == "") != (err == nil) && !laxer {
			t.Errorf("%.200q: we say %q, the server %v", data, problem, err)
		}
	})
}

func FuzzCleanText(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\x00b", "\xff\xfe", "é", "\xc3", "😀😀😀", "\x00\x00\x00\x00", "\u2028"} {
		f.Add(seed, 5)
		f.Add(seed, 0)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit &= 0xff
		clean := cleanText(text, limit)
		switch {
		case !utf8.ValidString(clean):
			t.Errorf("%q is not UTF-8", clean)
		case strings.ContainsRune(clean, 0):
			t.Errorf("%q holds a zero character", clean)
		case len(clean) > limit:
			t.Errorf("%q is longer than %d bytes", clean, limit)
		case cleanText(clean, limit) != clean:
			t.Errorf("cleaning %q again makes it %q", clean, cleanText(clean, limit))
		}
		storable := utf8.ValidString(text) && !strings.ContainsRune(text, 0)
		if storable && !strings.HasPrefix(text, clean) || storable && len(text) <= limit && clean != text {
			t.Errorf("%q, which is fine, became %q", text, clean)
		}
	})
}
