package handler

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter caps what a target may ask for.
const maxRetryAfter = time.Hour

// retryAfter is how long an answer asks to wait, by RFC 9110, section 10.2.3:
// seconds, or a date. A date counts by the answer's own Date, if it has one, so
// that the two clocks need not agree.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(header.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(date.Sub(now), 0), maxRetryAfter), true
}
