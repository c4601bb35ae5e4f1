package secret_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

// BenchmarkHandler logs the line of a script's run, with and without the handler.
func BenchmarkHandler(b *testing.B) {
	inner := slog.NewTextHandler(io.Discard, nil)
	for name, h := range map[string]slog.Handler{
		"without": inner, "no secrets": secret.Handler(inner, &secret.Redactor{}),
		"secrets": secret.Handler(inner, using("Bearer s3cr3t-token", "another-one-that-is-longer")),
	} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(h)
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(b.Context(), slog.LevelInfo, "run", slog.String("tool", "deploy"), slog.String("outcome", "ok"), slog.Duration("duration", time.Millisecond),
					slog.Uint64("steps", 1000), slog.Int64("memory", 1000), slog.Int("calls", 3), slog.Int("replayed", 0))
			}
		})
	}
}

// BenchmarkText redacts a text of 1 kB without a secret.
func BenchmarkText(b *testing.B) {
	r := using("Bearer s3cr3t-token", "another-one-that-is-longer")
	text := ""
	for len(text) < 1000 {
		text += "backend github is down: connect 10.0.0.7:443: connection refused; "
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r.Text(text)
	}
}
