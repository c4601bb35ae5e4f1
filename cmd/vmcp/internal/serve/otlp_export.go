package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

const (
	// reportEvery is the interval of log lines about telemetry that cannot be sent.
	reportEvery = time.Minute
	// longestReason bounds the part of a collector's response in a line of the log.
	longestReason = 300
)

// reporter logs that telemetry cannot be sent, at most once a minute.
type reporter struct {
	log     *slog.Logger
	secrets *secret.Redactor

	mu     sync.Mutex
	next   time.Time // guarded by mu: when the next line may be logged
	missed int       // guarded by mu: failures since the last line
}

func newReporter(log *slog.Logger) *reporter {
	r := &reporter{secrets: &secret.Redactor{}}
	r.log = slog.New(secret.Handler(log.Handler(), r.secrets))
	return r
}

// hide adds secrets to be hidden. Those before stay hidden: a collector that had them may still respond.
func (r *reporter) hide(secrets []string) { r.secrets.Add(secrets...) }

// listen makes OpenTelemetry's packages write to this log instead of standard error: their messages may contain values
// of variables.
func (r *reporter) listen() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !errors.Is(err, resource.ErrPartialResource) { // Sender.resource logs it without the value
			r.failed("opentelemetry", err)
		}
	}))
	otel.SetLogger(logr.FromSlogHandler(messages{r.log.Handler()}))
}

// failed logs an error, or counts it if one was logged within the last minute.
func (r *reporter) failed(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.next) {
		r.missed++
		return
	}
	reason := display.ClipText(display.VisibleLine(strings.ToValidUTF8(r.secrets.Text(err.Error()), "?")), longestReason)
	r.log.Warn("telemetry is not sent", "signal", what, "err", reason, "failuresBefore", r.missed)
	r.next, r.missed = now.Add(reportEvery), 0
}

// messages passes on errors with their text, and without attributes.
type messages struct{ next slog.Handler }

func (m messages) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (m messages) Handle(ctx context.Context, r slog.Record) error {
	return m.next.Handle(ctx, slog.NewRecord(r.Time, slog.LevelWarn, "opentelemetry: "+r.Message, 0))
}

func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }

func (m messages) WithGroup(string) slog.Handler { return m }

// within is a context that ends with ctx or life, whichever ends first.
func within(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(life, cancel)
	return ctx, func() { stop(); cancel() }
}

// errCut is the reason for what is not sent before the deadline of Close.
var errCut = errors.New("the collector did not respond in time")

// spanExporter reports what it cannot send, and stops when life ends.
type spanExporter struct {
	sdktrace.SpanExporter
	life     context.Context
	reporter *reporter
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := within(ctx, e.life)
	defer cancel()
	if e.life.Err() != nil {
		return nil
	}
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if e.life.Err() != nil && err != nil {
		err = errCut
	}
	if err != nil {
		e.reporter.failed("traces", err)
	}
	return nil
}

// metricExporter is a spanExporter for metrics.
type metricExporter struct {
	sdkmetric.Exporter
	life     context.Context
	reporter *reporter
}

func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, cancel := within(ctx, e.life)
	defer cancel()
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.reporter.failed("metrics", err)
	}
	return nil
}

// producer gathers the metrics each time they are sent.
type producer struct{ gatherer func() prometheus.Gatherer }

func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	return bridge.NewMetricProducer(bridge.WithGatherer(p.gatherer())).Produce(ctx)
}
