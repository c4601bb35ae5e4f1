package proxy_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// BenchmarkRelay measures a call of a client with a session, from the request to the last byte of the response. The
// allocations include those of the backend, which is in this process.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint("size=", size), func(b *testing.B) { benchmarkRelay(b, size, proxy.Options{}) })
	}
}

// BenchmarkTracedRelay is BenchmarkRelay with one of twenty traces sampled and discarded in batches.
func BenchmarkTracedRelay(b *testing.B) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nobody{}), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.05))))
	b.Cleanup(func() { _ = tracer.Shutdown(context.Background()) }) // it has nothing to send
	benchmarkRelay(b, 100, proxy.Options{Tracer: tracer})
}

// nobody is an exporter that discards spans.
type nobody struct{}

func (nobody) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

func (nobody) Shutdown(context.Context) error { return nil }

func benchmarkRelay(b *testing.B, size int, o proxy.Options) {
	result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
	backend := httptest.NewServer(&wiretest.Server{Handle: func(c *wiretest.Call) (string, error) {
		switch c.Method {
		case wire.ToolsList:
			return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, nil
		case wire.ToolsCall:
			return result, nil
		}
		return "", wiretest.ErrDefault
	}})
	b.Cleanup(backend.Close)
	p := proxy.New(o)
	b.Cleanup(func() { p.Close() })
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}}); err != nil {
		b.Fatal(err)
	}
	if err := p.Settled(b.Context()); err != nil {
		b.Fatal(err)
	}
	post := poster(b, p)
	b.ReportAllocs()
	for b.Loop() {
		post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
	}
}
