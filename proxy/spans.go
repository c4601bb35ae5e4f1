package proxy

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

// Spans: request → run → step → backend call. The trace context of a client comes in
// _meta (traceparent, tracestate, baggage: 2026-07-28, basic, "_meta"), and goes out to
// backends the same way.

var traceContext = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// span begins a span; the returned function ends it with the outcome and the error, if any.
// Without a tracer it costs a comparison.
func (p *Proxy) span(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(outcome.Outcome, error)) {
	if p.tracer == nil {
		return ctx, func(outcome.Outcome, error) {}
	}
	ctx, s := p.tracer.Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(o outcome.Outcome, err error) {
		s.SetAttributes(attribute.String("vmcp.outcome", o.String()))
		if err != nil {
			s.SetStatus(codes.Error, p.secrets.Text(err.Error()))
		}
		s.End()
	}
}

// linkedSpan is span with a link to the trace of first, a traceparent, where that is another one.
func (p *Proxy) linkedSpan(ctx context.Context, first, name string, attrs ...attribute.KeyValue) (context.Context, func(outcome.Outcome, error)) {
	ctx, end := p.span(ctx, name, attrs...)
	began := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": first}))
	if s := trace.SpanFromContext(ctx); began.IsValid() && began.TraceID() != s.SpanContext().TraceID() {
		s.AddLink(trace.Link{SpanContext: began})
	}
	return ctx, end
}

// traceparent is the trace that ctx is part of; "" without one.
func traceparent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// backendSpan begins the span of a request to the backend of e.
func (p *Proxy) backendSpan(ctx context.Context, e *catalog.Entry) (context.Context, func(outcome.Outcome, error)) {
	if p.tracer == nil {
		return ctx, func(outcome.Outcome, error) {}
	}
	return p.span(ctx, "backend "+e.Backend.Name(), attribute.String("vmcp.backend", e.Backend.Name()), attribute.String("vmcp.name", e.Original))
}

// requestSpan begins the span of a client's request, below the client's own.
func (p *Proxy) requestSpan(ctx context.Context, r request) (context.Context, func(outcome.Outcome, error)) {
	if p.tracer == nil {
		return ctx, func(outcome.Outcome, error) {}
	}
	ctx = traceContext.Extract(ctx, &metaCarrier{meta: r.meta})
	return p.span(ctx, r.method, attribute.String("mcp.method.name", r.method), attribute.String("mcp.protocol.version", r.revision))
}

// withTrace puts the present trace context into the _meta of a request to a backend.
func (p *Proxy) withTrace(ctx context.Context, params json.RawMessage) json.RawMessage {
	if p.tracer == nil {
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
