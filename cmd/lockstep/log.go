package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// newLogger writes coloured lines to a terminal and JSON to anything else.
func newLogger(w io.Writer, level slog.Level, env func(string) string) *slog.Logger {
	if !isTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: redactAttr}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{
		Level:       level,
		ReplaceAttr: redactAttr,
		NoColor:     env("NO_COLOR") != "", // https://no-color.org
	}))
}

// strayLog takes what packages that know no logger write to the standard one. It
// quotes nothing: net/http tells what a push target sent out of turn, and that
// may be anything.
type strayLog struct {
	to  io.Writer
	env func(string) string
}

// Write logs the beginning of a line, up to what it quotes.
func (s strayLog) Write(line []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(string(line)), `"`)
	newLogger(s.to, slog.LevelWarn, s.env).Warn("from a library", "text", strings.TrimSpace(text))
	return len(line), nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// redactAttr masks passwords in texts and errors, and has spans of time in a form
// that says its unit.
func redactAttr(_ []string, attr slog.Attr) slog.Attr {
	switch value := attr.Value.Any().(type) {
	case string:
		attr.Value = slog.StringValue(redact(value))
	case time.Duration:
		attr.Value = slog.StringValue(value.String())
	case error:
		attr.Value = slog.StringValue(redact(value.Error()))
	}
	return attr
}
