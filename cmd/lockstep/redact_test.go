package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestRedactMasksPasswordsAndNothingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:secret@h:1/d":                   "postgres://u:xxxxx@h:1/d",
		"in postgres://u:se@cr:et@h/d?x=1 there":      "in postgres://u:xxxxx@h/d?x=1 there",
		"postgres://u@h:5432/d":                       "postgres://u@h:5432/d",
		"postgres://h/d?user=u&password=se;c&x=1":     "postgres://h/d?user=u&password=xxxxx&x=1",
		"host=h password=secret user=u":               "host=h password=xxxxx user=u",
		`host=h password = 'it\'s secret' user=u`:     "host=h password = xxxxx user=u",
		"host=h password='never ends":                 "host=h password=xxxxx",
		"sslpassword=secret":                          "sslpassword=xxxxx",
		"no password here: 12:30 at noon@example.org": "no password here: 12:30 at noon@example.org",
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLogIsJSONAwayFromATerminalAndHidesPasswords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newLogger(&out, slog.LevelInfo, func(string) string { return "" })
	log.Debug("not shown")
	log.Info("connecting", "url", "postgres://u:secret@h/d", "error", errors.New("password=secret"), "took", 90*time.Second)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %v\n%s", err, out.String())
	}
	if line["msg"] != "connecting" || line["took"] != "1m30s" || strings.Contains(out.String(), "secret") {
		t.Errorf("logged %s", out.String())
	}
}
