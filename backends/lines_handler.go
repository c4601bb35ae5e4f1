package backends

import (
	"context"
	"log/slog"
	"strings"
)

// Handler returns a handler that adds records about a backend, of level info and above, to l, and passes all to
// h. With a nil Log it returns h.
func (l *Log) Handler(h slog.Handler, backend string) slog.Handler {
	if l == nil {
		return h
	}
	return &handler{Handler: h, log: l, backend: backend}
}

type handler struct {
	slog.Handler
	log     *Log
	backend string
	attrs   string // of With, formatted
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		var b strings.Builder
		b.WriteString(r.Message + h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			write(&b, a)
			return true
		})
		h.log.Add(h.backend, Own, levelOf(r.Level), b.String())
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		write(&b, a)
	}
	return &handler{h.Handler.WithAttrs(attrs), h.log, h.backend, b.String()}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.log, h.backend, h.attrs}
}

// write formats an attribute for a person. The attribute backend is omitted.
func write(b *strings.Builder, a slog.Attr) {
	if a.Key == "" || a.Key == "backend" {
		return
	}
	text := a.Value.Resolve().String()
	if a.Key == "err" {
		b.WriteString(": " + text)
		return
	}
	b.WriteString(" " + a.Key + "=" + text)
}

// levelOf returns the MCP name of a level.
func levelOf(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warning"
	case level >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}
