package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// logFlags say how the log is written.
type logFlags struct{ format, level string }

func (l *logFlags) register(f *pflag.FlagSet) {
	f.StringVar(&l.format, "log-format", "text", "how log lines are written: text or json")
	f.StringVar(&l.level, "log-level", "", "the least level that is logged: debug, info, warn or error (default info for serve, else error)")
}

func (l *logFlags) check() error {
	if l.format != "text" && l.format != "json" {
		return usageError("--log-format: want text or json, have " + l.format)
	}
	if err := new(slog.Level).UnmarshalText([]byte(l.level)); err != nil && l.level != "" {
		return usageError("--log-level: want debug, info, warn or error, have " + l.level)
	}
	return nil
}

// logger writes to w, from the given level up if no flag says which.
func (l *logFlags) logger(w io.Writer, level slog.Level) *slog.Logger {
	if l.level != "" {
		_ = level.UnmarshalText([]byte(l.level)) // checked before
	}
	o := &slog.HandlerOptions{Level: level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
