// Package spans makes OpenTelemetry spans of what passes the door: request → run → step → backend call. The trace
// context of a client comes in _meta (traceparent, tracestate, baggage: 2026-07-28, basic, "_meta"), and goes out to
// backends the same way.
package spans

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

var traceContext = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// Spans makes spans with the tracer of the moment. Without one, or where it is nil, it makes none, at the cost of a
// comparison.
type Spans struct {
	tracer atomic.Pointer[trace.Tracer]
	hide   func(string) string
}

// New makes spans with a provider; nil is none. hide takes the secrets out of texts.
func New(p trace.TracerProvider, hide func(string) string) *Spans {
	s := &Spans{hide: hide}
	s.Use(p)
	return s
}

// Use makes spans with another provider from now on; nil is none. A span ends where it began.
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

// End ends a span with the outcome and the error, if any.
type End = func(outcome.Outcome, error)

// none ends no span.
func none(outcome.Outcome, error) {}

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
	return ctx, func(o outcome.Outcome, err error) {
		span.SetAttributes(attribute.String("vmcp.outcome", o.String()))
		if err != nil {
			span.SetStatus(codes.Error, s.hide(err.Error()))
		}
		span.End()
	}
}

// Linked is Begin with a link to the trace of first, a traceparent, where that is another one.
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

// Traceparent is the trace that ctx is part of; "" without one.
func Traceparent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// Backend begins the span of a request to a backend; name is the backend's own of what is asked for.
func (s *Spans) Backend(ctx context.Context, backend, name string) (context.Context, End) {
	if !s.Made() {
		return ctx, none
	}
	return s.Begin(ctx, "backend "+backend, attribute.String("vmcp.backend", backend), attribute.String("vmcp.name", name))
}

// Request begins the span of a client's request, below the client's own, which is in the _meta of the request.
func (s *Spans) Request(ctx context.Context, method, revision string, meta json.RawMessage) (context.Context, End) {
	if !s.Made() {
		return known(ctx, meta), none
	}
	ctx = traceContext.Extract(ctx, &metaCarrier{meta: meta})
	return s.Begin(ctx, method, attribute.String("mcp.method.name", method), attribute.String("mcp.protocol.version", revision))
}

// known is ctx with the trace that a client says that its request is part of, for the log.
func known(ctx context.Context, meta json.RawMessage) context.Context {
	if jsonscan.Get(meta, "traceparent") == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, &metaCarrier{meta: meta})
}

// Inject puts the present trace context into the _meta of a request to a backend.
func (s *Spans) Inject(ctx context.Context, params json.RawMessage) json.RawMessage {
	if !s.Made() {
		return params
	}
	c := &metaCarrier{meta: jsonscan.Get(params, "_meta")}
	traceContext.Inject(ctx, c)
	return jsonscan.Set(params, "_meta", c.meta)
}

// metaCarrier is a _meta object as a carrier of trace context.
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
