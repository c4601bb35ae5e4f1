package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package sends metrics and spans to a collector over OTLP/HTTP, as telemetry of the configuration says, and
// where that is silent, OpenTelemetry's environment variables.
//
//	s := otlp.New(otlp.Options{Log: log, Metrics: gatherer})
//	begin, err := s.Open(cfg) // nothing changes yet
//	tracer := begin()         // nil: traces are disabled
//	s.Close()                 // sends what is left
//
// The metrics are those of the page /metrics, gathered from the same registry each time they are sent. A slow collector
// blocks no request: spans wait in a queue of 2048 (OTEL_BSP_MAX_QUEUE_SIZE), and are dropped when it is full. A
// collector that hangs or refuses is logged once a minute.

const (
	// flushTime bounds sending what is queued at the end.
	flushTime = 5 * time.Second
	// maxAnswer bounds what is read of a collector's response, in bytes.
	maxAnswer = 64 << 10
)

// ExporterOptions are the surroundings of a Sender.
type ExporterOptions struct {
	Log     *slog.Logger
	Version string
	Env     func(name string) string
	// Metrics returns what gathers the metrics; it is called each time they are sent.
	Metrics func() prometheus.Gatherer
	// Flush bounds sending what is queued at the end; 0 is five seconds.
	Flush time.Duration
}

// Sender sends what the last configuration asks for. It is safe for concurrent use.
type Sender struct {
	o        ExporterOptions
	reporter *reporter
	instance string // identifies this process among those with the same service name

	mu       sync.Mutex
	plan     plan      // guarded by mu
	running  *pipeline // guarded by mu; nil: nothing is sent
	retiring sync.WaitGroup
}

// NewExporter makes a Sender that sends nothing yet. From now on OpenTelemetry's packages write to its log.
func NewExporter(o ExporterOptions) *Sender {
	s := &Sender{o: o, reporter: newReporter(o.Log), instance: uuid()}
	s.reporter.listen()
	return s
}

// uuid is a random UUID.
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Open prepares what cfg asks for. begin applies it and returns the provider of tracers; nil means no traces.
// The pipeline before sends what it has queued, concurrently. If nothing has changed, the pipeline stays.
func (s *Sender) Open(cfg *config.Config) (begin func() trace.TracerProvider, err error) {
	next, err := resolve(cfg, s.o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(next, s.plan) {
		return s.tracer, nil
	}
	s.reporter.hide(next.secrets())
	exporters, err := s.exporters(next)
	if err != nil {
		return nil, err
	}
	for _, warning := range next.Warnings {
		s.o.Log.Warn("telemetry", "warning", warning)
	}
	return func() trace.TracerProvider {
		s.swap(next, exporters)
		return s.tracer()
	}, nil
}

// tracer is the provider of tracers; nil: no traces.
func (s *Sender) tracer() trace.TracerProvider {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.tracer == nil {
		return nil
	}
	return s.running.tracer
}

func (s *Sender) swap(next plan, e exporters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.running; old != nil {
		s.retiring.Go(func() { old.stop(s.o.Flush) })
	}
	s.plan, s.running = next, s.start(next, e)
}

// Close sends what is queued, for Options.Flush at most.
func (s *Sender) Close() {
	s.mu.Lock()
	last := s.running
	s.running, s.plan = nil, plan{}
	s.mu.Unlock()
	if last != nil {
		last.stop(s.o.Flush)
	}
	s.retiring.Wait()
}

// exporters are the exporters of each signal; nil: it is not sent.
type exporters struct {
	spans   sdktrace.SpanExporter
	metrics sdkmetric.Exporter
}

// exporters makes the exporters of a plan, which start nothing yet.
func (s *Sender) exporters(p plan) (e exporters, err error) {
	if t := p.Traces; t != nil {
		options := []otlptracehttp.Option{otlptracehttp.WithMaxResponseSize(maxAnswer)}
		if t.URL != "" {
			options = append(options, otlptracehttp.WithEndpointURL(t.URL))
		}
		if len(p.Headers) > 0 {
			options = append(options, otlptracehttp.WithHeaders(p.Headers))
		}
		if t.OwnTLS {
			options = append(options, otlptracehttp.WithTLSClientConfig(t.secure()))
		}
		if e.spans, err = otlptracehttp.New(context.Background(), options...); err != nil {
			return e, fmt.Errorf("telemetry: traces: %w", err)
		}
	}
	if t := p.Metrics; t != nil {
		options := []otlpmetrichttp.Option{otlpmetrichttp.WithMaxResponseSize(maxAnswer)}
		if t.URL != "" {
			options = append(options, otlpmetrichttp.WithEndpointURL(t.URL))
		}
		if len(p.Headers) > 0 {
			options = append(options, otlpmetrichttp.WithHeaders(p.Headers))
		}
		if t.OwnTLS {
			options = append(options, otlpmetrichttp.WithTLSClientConfig(t.secure()))
		}
		if e.metrics, err = otlpmetrichttp.New(context.Background(), options...); err != nil {
			return e, fmt.Errorf("telemetry: metrics: %w", err)
		}
	}
	return e, nil
}

// pipeline makes, queues and sends spans and metrics until it is stopped.
type pipeline struct {
	tracer *sdktrace.TracerProvider // nil: no spans are sent
	meter  *sdkmetric.MeterProvider // nil: no metrics are sent
	life   context.Context          // of requests to the collector
	end    context.CancelFunc
}

// start starts a pipeline; nil where no signal is sent. mu is held.
func (s *Sender) start(p plan, e exporters) *pipeline {
	if e.spans == nil && e.metrics == nil {
		return nil
	}
	about := s.resource(p)
	r := &pipeline{}
	r.life, r.end = context.WithCancel(context.Background())
	if e.spans != nil {
		options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithBatcher(spanExporter{e.spans, r.life, s.reporter})}
		if p.Rate >= 0 {
			options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(p.Rate))))
		}
		r.tracer = sdktrace.NewTracerProvider(options...)
	}
	if e.metrics != nil {
		r.meter = sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(
			metricExporter{e.metrics, r.life, s.reporter}, sdkmetric.WithProducer(producer{s.o.Metrics}),
		)))
	}
	return r
}

// stop sends what is queued, within a time, and then cancels what is left.
func (r *pipeline) stop(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(within, flushTime))
	defer cancel()
	var work sync.WaitGroup
	if r.tracer != nil {
		work.Go(func() { _ = r.tracer.Shutdown(ctx) }) // spans that cannot be sent until then are lost
	}
	if r.meter != nil {
		work.Go(func() { _ = r.meter.Shutdown(ctx) })
	}
	work.Wait()
	r.end()
}

// resource describes this process. Attributes of the configuration override those of the environment.
func (s *Sender) resource(p plan) *resource.Resource {
	own := []attribute.KeyValue{}
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		own = append(own, attribute.String(name, p.Attributes[name]))
	}
	for name, value := range map[string]string{"service.name": p.Name, "service.version": p.Version} {
		if value != "" {
			own = append(own, attribute.String(name, value))
		}
	}
	r, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(append(host(),
			attribute.String("service.name", p.DefaultName), attribute.String("service.version", s.o.Version), attribute.String("service.instance.id", s.instance),
		)...),
		resource.WithFromEnv(),
		resource.WithAttributes(own...),
	)
	if err != nil { // the attributes that could be parsed are in it
		s.o.Log.Warn("telemetry", "warning", "OTEL_RESOURCE_ATTRIBUTES: want name=value, separated by commas and escaped as in a URL; other parts are ignored")
	}
	return r
}

// host is the host.name of this machine, if it has one.
func host() []attribute.KeyValue {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	return []attribute.KeyValue{attribute.String("host.name", name)}
}
