package proxy

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Spans: request → run → step → backend call. The trace context of a client comes in
// _meta (traceparent, tracestate, baggage: 2026-07-28, basic, "_meta"), and goes out to
// backends the same way.

var traceContext = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// span begins a span; the returned function ends it with the error, if any. Without a
// tracer it costs a comparison.
func (p *Proxy) span(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	if p.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, s := p.tracer.Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			s.SetStatus(codes.Error, err.Error())
		}
		s.End()
	}
}

// requestSpan begins the span of a client's request, below the client's own.
func (p *Proxy) requestSpan(ctx context.Context, x *exchange) (context.Context, func(error)) {
	if p.tracer == nil {
		return ctx, func(error) {}
	}
	ctx = traceContext.Extract(ctx, &metaCarrier{meta: wire.Get(x.params, "_meta")})
	return p.span(ctx, x.method, attribute.String("mcp.method.name", x.method), attribute.String("mcp.protocol.version", x.client.revision))
}

// withTrace puts the present trace context into the _meta of a request to a backend.
func (p *Proxy) withTrace(ctx context.Context, params json.RawMessage) json.RawMessage {
	if p.tracer == nil {
		return params
	}
	c := &metaCarrier{meta: wire.Get(params, "_meta")}
	traceContext.Inject(ctx, c)
	return wire.Set(params, "_meta", c.meta)
}

// metaCarrier is a _meta object as a carrier of trace context.
type metaCarrier struct{ meta json.RawMessage }

func (c metaCarrier) Get(key string) string { return wire.GetString(c.meta, key) }

func (c *metaCarrier) Set(key, value string) { c.meta = wire.Set(c.meta, key, wire.Quote(value)) }

func (c metaCarrier) Keys() (keys []string) {
	wire.Each(c.meta, func(key, _ []byte) bool {
		keys = append(keys, string(key))
		return true
	})
	return keys
}
