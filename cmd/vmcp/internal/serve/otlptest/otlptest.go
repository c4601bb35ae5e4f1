// Package otlptest is a collector for tests: it receives OTLP/HTTP and decodes it.
package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is an HTTP handler that keeps what it receives.
type Collector struct {
	// Answer responds instead of the collector, after the request was kept; nil: status 200.
	Answer http.HandlerFunc

	mu        sync.Mutex
	spans     []*trace.Span                 // guarded by mu
	metrics   map[string]*metrics.Metric    // guarded by mu: the last of each name
	resources map[string]*resource.Resource // guarded by mu: the last of each path
	headers   map[string]http.Header        // guarded by mu
	requests  int                           // guarded by mu
}

// Start serves a collector until the test ends, and returns its URL.
func (c *Collector) Start(t testing.TB) string {
	s := httptest.NewServer(c)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// ServeHTTP receives one request.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.note(r)
	if c.Answer != nil {
		c.Answer(w, r)
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		var m collectortrace.ExportTraceServiceRequest
		if err = proto.Unmarshal(body, &m); err == nil {
			c.addSpans(&m)
		}
	case "/v1/metrics":
		var m collectormetrics.ExportMetricsServiceRequest
		if err = proto.Unmarshal(body, &m); err == nil {
			c.addMetrics(&m)
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func (c *Collector) note(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headers == nil {
		c.headers, c.metrics, c.resources = map[string]http.Header{}, map[string]*metrics.Metric{}, map[string]*resource.Resource{}
	}
	c.headers[r.URL.Path] = r.Header.Clone()
	c.requests++
}

func (c *Collector) addSpans(m *collectortrace.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range m.ResourceSpans {
		c.resources["/v1/traces"] = r.Resource
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

func (c *Collector) addMetrics(m *collectormetrics.ExportMetricsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range m.ResourceMetrics {
		c.resources["/v1/metrics"] = r.Resource
		for _, s := range r.ScopeMetrics {
			for _, one := range s.Metrics {
				c.metrics[one.Name] = one
			}
		}
	}
}

// Spans returns the spans received.
func (c *Collector) Spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*trace.Span(nil), c.spans...)
}

// Names returns the names of the spans received.
func (c *Collector) Names() (names []string) {
	for _, s := range c.Spans() {
		names = append(names, s.Name)
	}
	return names
}

// Metric returns the last metric received with a name; nil: none.
func (c *Collector) Metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Header returns a header of the last request to a path.
func (c *Collector) Header(path, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers[path].Get(name)
}

// Requests returns the number of requests.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Resource returns the resource attributes of the last request to a path.
func (c *Collector) Resource(path string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.resources[path]; r != nil {
		return Attributes(r.Attributes)
	}
	return nil
}

// Attributes returns the attributes whose values are strings.
func Attributes(all []*common.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range all {
		found[a.Key] = a.Value.GetStringValue()
	}
	return found
}
