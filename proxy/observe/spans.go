package observe

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// This part of the package makes OpenTelemetry spans of requests at the door: request → run → step → backend call. The trace
// context of a client is read from _meta (traceparent, tracestate, baggage: 2026-07-28, basic, "_meta"), and sent to
// backends the same way. What _meta does not have is read from the HTTP headers (W3C Trace Context and Baggage), which
// clients and gateways without knowledge of MCP send.

var traceContext = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// Spans makes spans with the current tracer. If that or the *Spans is nil, it makes none, at the cost of a comparison.
type Spans struct {
	tracer atomic.Pointer[trace.Tracer]
	hide   func(string) string
}

// NewSpans makes spans with a provider; nil: none. hide replaces secrets in texts.
func NewSpans(p trace.TracerProvider, hide func(string) string) *Spans {
	s := &Spans{hide: hide}
	s.Use(p)
	return s
}

// Use sets the provider of later spans; nil: none. A span is exported by the provider with which it began.
func (s *Spans) Use(p trace.TracerProvider) {
	if p == nil {
		s.tracer.Store(nil)
		return
	}
	t := p.Tracer("github.com/vmcp-dev/vmcp/proxy")
	s.tracer.Store(&t)
}

// Made reports whether spans are made.
func (s *Spans) Made() bool { return s != nil && s.tracer.Load() != nil }

// End ends a span with an outcome and an error; nil for none.
type End = func(Outcome, error)

// none is the End of no span.
func none(Outcome, error) {}

// Begin begins a span below that of ctx.
func (s *Spans) Begin(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, End) {
	if s == nil {
		return ctx, none
	}
	tracer := s.tracer.Load()
	if tracer == nil {
		return ctx, none
	}
	ctx, span := (*tracer).Start(ctx, name, trace.WithAttributes(attrs...))
	if !span.IsRecording() {
		return ctx, none
	}
	return ctx, func(o Outcome, err error) {
		span.SetAttributes(attribute.String("vmcp.outcome", o.String()))
		if err != nil {
			span.SetStatus(codes.Error, s.hide(err.Error()))
		}
		span.End()
	}
}

// Linked is Begin with a link to the trace of first, a traceparent, if that is another trace.
func (s *Spans) Linked(ctx context.Context, first, name string, attrs ...attribute.KeyValue) (context.Context, End) {
	if !s.Made() {
		return ctx, none
	}
	ctx, end := s.Begin(ctx, name, attrs...)
	began := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": first}))
	if span := trace.SpanFromContext(ctx); began.IsValid() && began.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(trace.Link{SpanContext: began})
	}
	return ctx, end
}

// Within is ctx with the trace context of a request's headers; that of _meta has precedence. Without such headers it
// costs two map lookups.
func (s *Spans) Within(ctx context.Context, h http.Header) context.Context {
	if len(h["Traceparent"]) == 1 { // several are ambiguous
		ctx = propagation.TraceContext{}.Extract(ctx, headerCarrier(h))
	}
	if len(h["Baggage"]) > 0 && s.Made() {
		ctx = propagation.Baggage{}.Extract(ctx, headerCarrier(h))
	}
	return ctx
}

// maxHeader bounds a header that is read, in bytes; it is the limit of the baggage format.
const maxHeader = 8 << 10

// headerCarrier reads trace context from the headers of a request. A list may be in several lines.
type headerCarrier http.Header

// Get implements propagation.TextMapCarrier.
func (c headerCarrier) Get(key string) string {
	values := c[http.CanonicalHeaderKey(key)]
	if n := len(values); n == 0 || n > maxHeader {
		return ""
	}
	size := len(values) - 1
	for _, v := range values {
		size += len(v)
	}
	if size > maxHeader {
		return ""
	}
	return strings.Join(values, ",")
}

// Set implements propagation.TextMapCarrier: nothing is sent in headers.
func (headerCarrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (c headerCarrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

// Traceparent is the traceparent of ctx; "" for none.
func Traceparent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// Backend begins the span of a request to a backend; name is the backend's own name of the entry.
func (s *Spans) Backend(ctx context.Context, backend, name string) (context.Context, End) {
	if !s.Made() {
		return ctx, none
	}
	return s.Begin(ctx, "backend "+backend, attribute.String("vmcp.backend", backend), attribute.String("vmcp.name", name))
}

// Request begins the span of a client's request, as a child of the client's span in the _meta of the request, else in
// its headers, else in ctx.
func (s *Spans) Request(ctx context.Context, method, revision string, meta json.RawMessage) (context.Context, End) {
	if !s.Made() {
		return known(ctx, meta), none
	}
	ctx = traceContext.Extract(ctx, &metaCarrier{meta: meta})
	return s.Begin(ctx, method, attribute.String("mcp.method.name", method), attribute.String("mcp.protocol.version", revision))
}

// known is ctx with the trace context of the client, for the log.
func known(ctx context.Context, meta json.RawMessage) context.Context {
	if jsonscan.Get(meta, "traceparent") == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, &metaCarrier{meta: meta})
}

// Inject adds the current trace context to the _meta of a request to a backend.
func (s *Spans) Inject(ctx context.Context, params json.RawMessage) json.RawMessage {
	if !s.Made() {
		return params
	}
	c := &metaCarrier{meta: jsonscan.Get(params, "_meta")}
	traceContext.Inject(ctx, c)
	return jsonscan.Set(params, "_meta", c.meta)
}

// metaCarrier reads and writes trace context in a _meta object.
type metaCarrier struct{ meta json.RawMessage }

func (c metaCarrier) Get(key string) string { return jsonscan.GetString(c.meta, key) }

func (c *metaCarrier) Set(key, value string) {
	c.meta = jsonscan.Set(c.meta, key, jsonscan.Quote(value))
}

func (c metaCarrier) Keys() (keys []string) {
	jsonscan.Each(c.meta, func(key, _ []byte) bool {
		keys = append(keys, string(key))
		return true
	})
	return keys
}
