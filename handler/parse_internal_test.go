package handler

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text, date string
		want       time.Duration
		none       bool
	}{
		{text: "0"},
		{text: "30", want: 30 * time.Second},
		{text: "3601", want: time.Hour},
		{text: "9223372036854775807", want: time.Hour},
		{text: "", none: true},
		{text: "-1", none: true},
		{text: "1.5", none: true},
		{text: "soon", none: true},
		{text: "99999999999999999999", none: true},
		{text: "Sun, 29 Nov 2026 12:00:30 GMT", want: 30 * time.Second},
		{text: "Sun, 29 Nov 2026 11:00:00 GMT"},
		{text: "Sun, 29 Nov 2026 23:00:00 GMT", want: time.Hour},
		{text: "Sun, 29 Nov 2026 03:00:30 GMT", date: "Sun, 29 Nov 2026 03:00:00 GMT", want: 30 * time.Second}, // their clock is slow
	} {
		h := http.Header{"Retry-After": {c.text}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got, ok := retryAfter(h, now); got != c.want || ok == c.none {
			t.Errorf("%q: %v, %t; want %v", c.text, got, ok, c.want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for address, allow := range map[string][]netip.Prefix{
		"127.0.0.1:80": loopback, "127.9.9.9:1": loopback, "[::1]:80": loopback, "[::ffff:127.0.0.1]:80": loopback, "10.1.2.3:1": private, "[fd00::1]:1": private,
		"[fe80::1%1]:1": {netip.MustParsePrefix("fe80::/10")},
	} {
		if err := checkAddress(allow, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, allow := range map[string][]netip.Prefix{
		"169.254.169.254:80": loopback, "[::ffff:169.254.169.254]:80": loopback, "0.0.0.0:80": loopback, "[::]:80": loopback, "10.1.2.3:1": loopback,
		"127.0.0.1:1": private, "[fe80::1%1]:1": private, "[::ffff:0:0]:1": private,
	} {
		var forbidden *forbiddenError
		if err := checkAddress(allow, address); !errors.As(err, &forbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("text"))
	f.Add([]byte("\x00\xff\xfe"))
	f.Add([]byte(strings.Repeat("é", maxFailure)))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := excerpt(body)
		if !utf8.ValidString(text) || len(text) > 3*maxFailure {
			t.Errorf("%d bytes of %d, valid %t", len(text), len(body), utf8.ValidString(text))
		}
	})
}

func FuzzHeaderText(f *testing.F) {
	f.Add("a ü\r\n%")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []byte(headerText(text)) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q has byte %#x", headerText(text), c)
			}
		}
	})
}
