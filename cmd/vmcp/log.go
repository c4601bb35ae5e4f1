package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// logFlags are the format and the level of the log.
type logFlags struct{ format, level string }

func (l *logFlags) register(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&l.format, "log-format", "text", "how log lines are written: text or json")
	f.StringVar(&l.level, "log-level", "", "the lowest level that is logged: debug, info, warn or error (default info for serve, else error)")
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

// logger writes to standard error, with the secrets of the configuration redacted.
func (a *app) logger(level slog.Level) *slog.Logger {
	return slog.New(secret.Handler(replicaHandler{a.log.handler(a.err, level), &a.replica}, a.secrets))
}

// replicaHandler adds the id of this replica to each line, once that is known.
type replicaHandler struct {
	slog.Handler
	id *atomic.Pointer[string]
}

// joined sets the id of this replica for all later lines.
func (a *app) joined(id string) { a.replica.Store(&id) }

// Handle implements slog.Handler.
func (h replicaHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := h.id.Load(); id != nil {
		r = r.Clone()
		r.AddAttrs(slog.String("replica", *id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h replicaHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return replicaHandler{h.Handler.WithAttrs(attrs), h.id}
}

// WithGroup implements slog.Handler.
func (h replicaHandler) WithGroup(name string) slog.Handler {
	return replicaHandler{h.Handler.WithGroup(name), h.id}
}

// handler writes to w; level is the lowest level unless --log-level is given.
func (l *logFlags) handler(w io.Writer, level slog.Level) slog.Handler {
	if l.level != "" {
		_ = level.UnmarshalText([]byte(l.level)) // checked before
	}
	o := &slog.HandlerOptions{Level: level}
	if l.format == "json" {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// serverLog is the logger of net/http. Failed handshakes are logged at level debug: any peer
// can cause any number of them.
func serverLog(to *slog.Logger) *log.Logger { return log.New(serverLines{to}, "", 0) }

type serverLines struct{ to *slog.Logger }

func (l serverLines) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// telemetry is the exporter of metrics and traces; metrics are the metrics that it sends.
func (a *app) telemetry(log *slog.Logger, metrics func() prometheus.Gatherer) *serve.Sender {
	return serve.NewExporter(serve.ExporterOptions{Log: log, Version: buildVersion(), Env: os.Getenv, Metrics: metrics})
}
