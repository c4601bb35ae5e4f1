package secret

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
)

// Handler returns a handler that hides the secrets of r in messages and
// attributes, and passes the records to h. r must not be nil.
func Handler(h slog.Handler, r *Redactor) slog.Handler {
	if have, ok := h.(*handler); ok && have.secrets == r {
		return h
	}
	return &handler{h, r}
}

type handler struct {
	slog.Handler
	secrets *Redactor
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.secrets.none() {
		return h.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, h.secrets.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &handler{h.Handler.WithAttrs(clean), h.secrets}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.secrets}
}

// attr hides secrets in an attribute. Numbers and times are unchanged; a value of
// another type is formatted as text, and unchanged if that has no secret.
func (h *handler) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.secrets.Text(a.Value.String()))
	case slog.KindGroup:
		var clean []any
		for _, member := range a.Value.Group() {
			clean = append(clean, h.attr(member))
		}
		return slog.Group(a.Key, clean...)
	case slog.KindAny:
		if v := reflect.ValueOf(a.Value.Any()); v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return slog.String(a.Key, h.secrets.Text(string(v.Bytes())))
		}
		text := fmt.Sprintf("%+v", a.Value.Any())
		if hidden := h.secrets.Text(text); hidden != text {
			return slog.String(a.Key, hidden)
		}
	}
	return a
}
