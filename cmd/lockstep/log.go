package main

import (
	"io"
	"log/slog"
	"os"

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

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// redactAttr masks passwords in texts and errors.
func redactAttr(_ []string, attr slog.Attr) slog.Attr {
	switch value := attr.Value.Any().(type) {
	case string:
		attr.Value = slog.StringValue(redact(value))
	case error:
		attr.Value = slog.StringValue(redact(value.Error()))
	}
	return attr
}
