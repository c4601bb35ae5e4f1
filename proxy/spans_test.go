package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/proxy"
)

// TestSpans follows one call from the client's span to the backend's _meta.
func TestSpans(t *testing.T) {
	var carried string
	s := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "traced"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		carried, _ = r.Params.Meta["traceparent"].(string)
		return &mcp.CallToolResult{}, nil, nil
	})
	backend := sdkBackend(t, s, false)
	spans := tracetest.NewInMemoryExporter()
	p := proxy.New(proxy.Options{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	if err := p.Apply(&config.Config{
		Backends:      []config.Backend{{Name: "b", URL: backend}},
		ScriptedTools: []config.ScriptedTool{{Name: "flow", Description: "d", Script: "def run(params):\n    call_tool(\"traced\")\n    return {}\n"}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	r, err := connect(t, srv.URL+"/mcp", "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{
		Name: "flow", Meta: mcp.Meta{"traceparent": "00-" + trace + "-" + parent + "-01"}})
	if text(t, r, err); r.IsError {
		t.Fatal("the run failed")
	}
	var chain []string
	above := parent
	for range 4 {
		for _, s := range spans.GetSpans() {
			if s.Parent.SpanID().String() == above && s.SpanContext.TraceID().String() == trace {
				chain = append(chain, s.Name)
				above = s.SpanContext.SpanID().String()
				break
			}
		}
	}
	if want := []string{"tools/call", "run flow", "call_tool traced", "backend b"}; !slices.Equal(chain, want) {
		t.Errorf("spans %q, want %q", chain, want)
	}
	if !strings.HasPrefix(carried, "00-"+trace+"-"+above) {
		t.Errorf("the backend got traceparent %q, want trace %s below span %s", carried, trace, above)
	}
}

// TestTraceOfHeaders: the trace context in HTTP headers is used if _meta has none, within bounds.
func TestTraceOfHeaders(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	const header, other = "00-" + trace + "-" + parent + "-01", "00-11111111111111111111111111111111-2222222222222222-01"
	var carried mcp.Meta
	s := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "traced"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		carried = r.Params.Meta
		return &mcp.CallToolResult{}, nil, nil
	})
	backend := sdkBackend(t, s, false)
	p := proxy.New(proxy.Options{Tracer: sdktrace.NewTracerProvider()})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "b", URL: backend}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		header                 http.Header
		meta                   string // members
		trace, state, baggaged string // what the backend gets; "" for a trace of our own
	}{
		"headers":               {http.Header{"Traceparent": {header}, "Tracestate": {"a=1", "b=2"}, "Baggage": {"k=v"}}, "", trace, "a=1,b=2", "k=v"},
		"_meta wins":            {http.Header{"Traceparent": {header}, "Tracestate": {"a=1"}}, `"traceparent":"` + other + `",`, other[3:35], "", ""},
		"two":                   {http.Header{"Traceparent": {header, other}, "Tracestate": {"a=1"}}, "", "", "", ""},
		"none":                  {http.Header{"Traceparent": {"00-" + trace}}, "", "", "", ""},
		"too long a state":      {http.Header{"Traceparent": {header}, "Tracestate": {"a=1", strings.Repeat(",", 8<<10)}}, "", trace, "", ""},
		"too much of a baggage": {http.Header{"Traceparent": {header}, "Baggage": {"k=v", "l=" + strings.Repeat("v", 8<<10)}}, "", trace, "", ""},
		"baggage alone":         {http.Header{"Baggage": {"k=v"}}, "", "", "", "k=v"},
	} {
		t.Run(name, func(t *testing.T) {
			r := modernRequest(t.Context(), srv.URL+"/mcp", "traced", "")
			body, _ := io.ReadAll(r.Body)
			body = bytes.Replace(body, []byte(`"_meta":{`), []byte(`"_meta":{`+tt.meta), 1)
			r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
			maps.Copy(r.Header, tt.header)
			resp, err := http.DefaultClient.Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", resp, err)
			}
			resp.Body.Close()
			parent, _ := carried["traceparent"].(string)
			state, _ := carried["tracestate"].(string)
			baggaged, _ := carried["baggage"].(string)
			if tt.trace != "" && !strings.HasPrefix(parent, "00-"+tt.trace+"-") || strings.Contains(parent, trace) && tt.trace != trace || state != tt.state || baggaged != tt.baggaged {
				t.Errorf("the backend got traceparent %q, tracestate %q, baggage %.80q, want %q, %q, %q", parent, state, baggaged, tt.trace, tt.state, tt.baggaged)
			}
		})
	}
}

// Log lines about a request with a trace context have its ids, with and without export of spans.
func TestLinesNameTheTrace(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, tracer := range map[string]*sdktrace.TracerProvider{"exported": sdktrace.NewTracerProvider(), "not exported": nil} {
		t.Run(name, func(t *testing.T) {
			var log testkit.Buffer
			o := proxy.Options{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			if tracer != nil {
				o.Tracer = tracer
			}
			p := proxy.New(o)
			srv := httptest.NewServer(p)
			t.Cleanup(func() { p.Close(); srv.Close() })
			script := "def run(params):\n    print(\"printed\")\n    log(\"logged\")\n    return {}\n"
			if err := p.Apply(&config.Config{ScriptedTools: []config.ScriptedTool{{Name: "flow", Description: "d", Script: script}}}); err != nil {
				t.Fatal(err)
			}
			c := connect(t, srv.URL+"/mcp", "2025-11-25", nil)
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "flow", Meta: mcp.Meta{"traceparent": "00-" + trace + "-" + parent + "-01"}})
			text(t, r, err)
			want := map[string]bool{"printed": true, "logged": true, "run": true, "call": true}
			for line := range strings.Lines(log.String()) {
				var l struct {
					Msg, Method string
					TraceID     string `json:"trace_id"`
					SpanID      string `json:"span_id"`
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				if !want[l.Msg] {
					continue
				}
				delete(want, l.Msg)
				if l.TraceID != trace || len(l.SpanID) != 16 || tracer == nil && l.SpanID != parent {
					t.Errorf("%q is of trace %q, span %q", l.Msg, l.TraceID, l.SpanID)
				}
			}
			if len(want) > 0 {
				t.Errorf("no line %v in\n%s", want, log.String())
			}
			r, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "flow"})
			text(t, r, err)
			if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); tracer == nil && strings.Contains(lines[len(lines)-1], "trace_id") {
				t.Errorf("a request of no trace: %s", lines[len(lines)-1])
			}
			const header = "11111111111111111111111111111111"
			asked := modernRequest(t.Context(), srv.URL+"/mcp", "flow", "")
			asked.Header.Set("Traceparent", "00-"+header+"-"+parent+"-01")
			resp, err := http.DefaultClient.Do(asked)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			testkit.Eventually(t, "lines of the trace in the headers", func() bool { return strings.Contains(log.String(), `"trace_id":"`+header) })
		})
	}
}

// The tracer is set by each configuration; a refused configuration does not change it.
func TestTracerOfTheConfiguration(t *testing.T) {
	first, second := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	var next trace.TracerProvider
	var refuse error
	begun := 0
	p := proxy.New(proxy.Options{OpenTracer: func(*config.Config) (func() trace.TracerProvider, error) {
		return func() trace.TracerProvider { begun++; return next }, refuse
	}})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	list := func() {
		if _, err := connect(t, srv.URL+"/mcp", "2025-11-25", nil).ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		provider    trace.TracerProvider
		refuse      error
		first, more bool // who gets spans
	}{
		{provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(first)), first: true},
		{provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(second)), more: true},
		{provider: nil, refuse: errors.New("no certificates"), more: true},
		{provider: nil},
	} {
		next, refuse = step.provider, step.refuse
		if err := p.Apply(&config.Config{}); (err != nil) != (refuse != nil) {
			t.Fatalf("Apply: %v, want %v", err, refuse)
		}
		first.Reset()
		second.Reset()
		list()
		if got := len(first.GetSpans()) > 0; got != step.first {
			t.Errorf("step %d: spans of the first: %t, want %t", begun, got, step.first)
		}
		if got := len(second.GetSpans()) > 0; got != step.more {
			t.Errorf("step %d: spans of the second: %t, want %t", begun, got, step.more)
		}
	}
	if begun != 3 {
		t.Errorf("begun %d times, want 3", begun)
	}
}

// A trace that is not sampled makes no spans, and the backend is told so.
func TestUnsampledTraces(t *testing.T) {
	var carried string
	s := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "traced"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		carried, _ = r.Params.Meta["traceparent"].(string)
		return &mcp.CallToolResult{}, nil, nil
	})
	backend := sdkBackend(t, s, false)
	spans := tracetest.NewInMemoryExporter()
	p := proxy.New(proxy.Options{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))))})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	if err := p.Apply(&config.Config{Backends: []config.Backend{{Name: "b", URL: backend}}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := connect(t, srv.URL+"/mcp", "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "traced"})
	text(t, r, err)
	if len(spans.GetSpans()) > 0 || !strings.HasPrefix(carried, "00-") || !strings.HasSuffix(carried, "-00") {
		t.Errorf("%d spans, the backend got traceparent %q", len(spans.GetSpans()), carried)
	}
}

// enablePrometheusMetricsPath: false removes the page only; the metrics are still gathered.
func TestMetricsPath(t *testing.T) {
	p := proxy.New(proxy.Options{})
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	no, yes := false, true
	for _, tt := range []struct {
		said *bool
		want int
	}{{nil, 200}, {&no, 404}, {&yes, 200}, {&no, 404}, {nil, 200}} {
		if err := p.Apply(&config.Config{Telemetry: config.Telemetry{EnablePrometheusMetricsPath: tt.said}}); err != nil {
			t.Fatal(err)
		}
		if r, _ := ask(t, "GET", srv.URL+"/metrics", "", ""); r.StatusCode != tt.want {
			t.Errorf("/metrics: %s, want %d", r.Status, tt.want)
		}
		if r, _ := ask(t, "GET", srv.URL+"/healthz", "", ""); r.StatusCode != 200 {
			t.Errorf("/healthz: %s", r.Status)
		}
		if all, err := p.Gatherer().Gather(); err != nil || len(all) < 10 {
			t.Errorf("%d metrics are gathered, %v", len(all), err)
		}
	}
}
