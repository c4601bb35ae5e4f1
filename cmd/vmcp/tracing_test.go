package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTracingExports sends a span to where the environment says.
func TestTracingExports(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	provider, flush, err := tracing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "one")
	span.End()
	flush()
	select {
	case path := <-got:
		if path != "/v1/traces" {
			t.Errorf("exported to %s", path)
		}
	default:
		t.Error("nothing was exported")
	}
}

func TestTracingIsOffByDefault(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if provider, _, err := tracing(t.Context()); provider != nil || err != nil {
		t.Errorf("tracing without an endpoint: %v, %v", provider, err)
	}
}
