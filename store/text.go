package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxText is how much of an error or result is kept, in bytes.
const maxText = 64 << 10

// maxDelay bounds any delay; beyond it a due date says nothing.
const maxDelay = 366 * 24 * time.Hour

// Recording an outcome must never fail on what it says. So whatever the
// server would refuse is mended here: NUL, which no text column can hold,
// broken UTF-8, and length.

// cleanText makes s storable in at most limit bytes, cut on a rune.
func cleanText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func cleanError(s string) *string {
	if s == "" {
		return nil
	}
	s = cleanText(s, maxText)
	return &s
}

// cleanResult returns JSON that jsonb takes: result itself, or a note that
// says why it could not be kept.
func cleanResult(result json.RawMessage) *string {
	if len(result) == 0 {
		return nil
	}
	text := string(result)
	if problem := resultProblem(result); problem != "" {
		note, _ := json.Marshal(map[string]string{"lockstep_result_dropped": problem})
		text = string(note)
	}
	return &text
}

func resultProblem(result json.RawMessage) string {
	if len(result) > maxText {
		return fmt.Sprintf("%d bytes, over the limit of %d", len(result), maxText)
	}
	return jsonProblem(result)
}

// jsonProblem says what jsonb would refuse in data, or "". Besides syntax and
// encoding these are the two escapes that JSON allows and PostgreSQL text
// can't hold: \u0000 and half a surrogate pair; and numbers beyond numeric.
func jsonProblem(data []byte) string {
	if !utf8.Valid(data) {
		return "is not valid UTF-8"
	}
	if !json.Valid(data) {
		var v any
		return "is not valid JSON: " + errText(json.Unmarshal(data, &v))
	}
	if problem := escapeProblem(data); problem != "" {
		return problem
	}
	return numberProblem(data)
}

func errText(err error) string {
	if err == nil {
		return "unknown"
	}
	return err.Error()
}

// escapeProblem scans valid JSON for escapes that jsonb refuses.
func escapeProblem(data []byte) string {
	for i := 0; ; {
		at := bytes.IndexByte(data[i:], '\\')
		if at < 0 {
			return ""
		}
		i += at
		if data[i+1] != 'u' {
			i += 2
			continue
		}
		switch unit := hex4(data[i+2:]); {
		case unit == 0:
			return fmt.Sprintf(`holds a zero character (\u0000) at byte %d, which PostgreSQL can't store`, i)
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return fmt.Sprintf(`holds a lone surrogate (\u%04x) at byte %d`, unit, i)
		case unit >= 0xD800 && unit <= 0xDBFF:
			if !lowSurrogate(data[i+6:]) {
				return fmt.Sprintf(`holds a lone surrogate (\u%04x) at byte %d`, unit, i)
			}
			i += 12
		default:
			i += 6
		}
	}
}

func lowSurrogate(rest []byte) bool {
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return false
	}
	unit := hex4(rest[2:])
	return unit >= 0xDC00 && unit <= 0xDFFF
}

// hex4 reads four hex digits, which valid JSON guarantees after \u.
func hex4(b []byte) int {
	n := 0
	for _, c := range b[:4] {
		n <<= 4
		switch {
		case c <= '9':
			n |= int(c - '0')
		default:
			n |= int(c|0x20-'a') + 10
		}
	}
	return n
}

func clampDelay(d *time.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	clamped := min(max(*d, 0), maxDelay)
	return &clamped
}
