package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve/otlptest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// canary is a secret that must not be in any output.
const canary = "canary-Zk93hQ71xT"

// sender is a Sender with one counter and one native histogram, and its log.
func sender(t *testing.T) (*Sender, *testkit.Buffer) {
	t.Helper()
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."}, []string{"tool"})
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds", Help: "Time.", Buckets: []float64{1}, NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(calls, seconds)
	calls.WithLabelValues("echo").Add(3)
	seconds.Observe(0.5)
	log := &testkit.Buffer{}
	s := NewExporter(ExporterOptions{
		Log: slog.New(slog.NewTextHandler(log, nil)), Version: "1.2.3", Env: os.Getenv,
		Metrics: func() prometheus.Gatherer { return registry }, Flush: time.Minute,
	})
	t.Cleanup(s.Close)
	return s, log
}

// load is a configuration with this text below telemetry.
func load(t *testing.T, telemetry string) *config.Config {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "vmcp.yaml"), []byte("name: tools\nbackends: []\ntelemetry: "+telemetry+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// open applies a configuration.
func open(t *testing.T, s *Sender, cfg *config.Config) trace.TracerProvider {
	t.Helper()
	begin, err := s.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return begin()
}

func span(t *testing.T, p trace.TracerProvider, name string) {
	t.Helper()
	if p == nil {
		t.Fatal("no spans are made")
	}
	_, s := p.Tracer("test").Start(t.Context(), name)
	s.End()
}

// Spans and metrics are sent as the file says, with headers and attributes, over HTTP and HTTPS.
func TestSends(t *testing.T) {
	authority := testkit.NewAuthority(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	authority.WriteCert(t, ca)
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=blue,stage=test,service.name=environment")
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=environment")
			t.Setenv("COLLECTOR_KEY", canary)
			t.Setenv("STAGE", "prod")
			var c otlptest.Collector
			srv := httptest.NewUnstartedServer(&c)
			more := "insecure: true"
			if scheme == "https" {
				srv.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})}}
				srv.StartTLS()
				more = "caCertPath: " + ca
			} else {
				srv.Start()
			}
			defer srv.Close()
			s, log := sender(t)
			p := open(t, s, load(t, fmt.Sprintf(`{endpoint: %q, %s, tracingEnabled: true, metricsEnabled: true, samplingRate: "1", serviceName: mine, serviceVersion: v9,
  headers: {X-Key: "Bearer ${COLLECTOR_KEY}"}, customAttributes: {stage: "${STAGE}", region: eu}}`, srv.Listener.Addr(), more)))
			span(t, p, "one")
			s.Close()
			if got := c.Names(); len(got) != 1 || got[0] != "one" {
				t.Errorf("spans %q, want one; the log: %s", got, log)
			}
			calls := c.Metric("calls_total").GetSum().GetDataPoints()
			if len(calls) != 1 || calls[0].GetAsDouble() != 3 || otlptest.Attributes(calls[0].Attributes)["tool"] != "echo" {
				t.Errorf("calls_total: %v, want 3 of echo", calls)
			}
			if h := c.Metric("seconds").GetExponentialHistogram().GetDataPoints(); len(h) != 1 || h[0].Count != 1 || h[0].GetSum() != 0.5 {
				t.Errorf("seconds: %v, want one of 0.5", h)
			}
			for _, path := range []string{"/v1/traces", "/v1/metrics"} {
				if got := c.Header(path, "X-Key"); got != "Bearer "+canary {
					t.Errorf("%s: X-Key %q", path, got)
				}
				got := c.Resource(path)
				for name, want := range map[string]string{"service.name": "mine", "service.version": "v9", "stage": "prod", "region": "eu", "team": "blue", "service.instance.id": s.instance} {
					if got[name] != want {
						t.Errorf("%s: attribute %s is %q, want %q", path, name, got[name], want)
					}
				}
			}
			if log.String() != "" {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// The environment says what the file does not; if neither names an endpoint, nothing is sent.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, file      string
		env             map[string]string // AT is replaced by the collector's URL
		traces, metrics bool
		service, key    string
	}{
		{name: "nothing", file: "{}"},
		{name: "traces as ever", file: "{}", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "AT"}, traces: true, service: "tools"},
		{name: "of one signal", file: "{serviceName: a}", env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "AT/v1/metrics", "OTEL_SERVICE_NAME": "b"}, metrics: true, service: "a"},
		{name: "both", file: "{}", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "AT", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "b", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=e"}, traces: true, metrics: true, service: "b", key: "e"},
		{name: "the file asks, the environment says where", file: "{metricsEnabled: true, tracingEnabled: false}", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "AT"}, metrics: true, service: "tools"},
		{name: "the file says where", file: "{endpoint: AT, metricsEnabled: true}", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=e"}, metrics: true, service: "tools", key: "e"},
		{name: "no exporter", file: "{}", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "AT", "OTEL_TRACES_EXPORTER": "none"}},
		{name: "nowhere", file: "{tracingEnabled: true, metricsEnabled: true}"},
		{name: "switched off", file: "{endpoint: AT, metricsEnabled: true, tracingEnabled: true}", env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c otlptest.Collector
			at := c.Start(t)
			for name, value := range tt.env {
				t.Setenv(name, strings.Replace(value, "AT", at, 1))
			}
			s, log := sender(t)
			cfg := load(t, strings.Replace(tt.file, "AT", at, 1))
			cfg.Telemetry.SamplingRate = "1"
			p := open(t, s, cfg)
			if (p != nil) != tt.traces {
				t.Errorf("spans are made: %t, want %t", p != nil, tt.traces)
			}
			if p != nil {
				span(t, p, "one")
			}
			s.Close()
			if got := len(c.Spans()) == 1; got != tt.traces {
				t.Errorf("spans were sent: %t, want %t; the log: %s", got, tt.traces, log)
			}
			if got := c.Metric("calls_total") != nil; got != tt.metrics {
				t.Errorf("metrics were sent: %t, want %t; the log: %s", got, tt.metrics, log)
			}
			path := "/v1/traces"
			if tt.metrics {
				path = "/v1/metrics"
			}
			if got := c.Resource(path)["service.name"]; got != tt.service {
				t.Errorf("service.name %q, want %q", got, tt.service)
			}
			if got := c.Header(path, "X-Key"); got != tt.key {
				t.Errorf("X-Key %q, want %q", got, tt.key)
			}
		})
	}
}

// samplingRate applies to traces without a sampling decision; a client's decision is kept.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		file, env   string
		least, most int // of 4000
	}{
		{`samplingRate: "0"`, "", 0, 0},
		{"", "", 100, 300},
		{"", "always_off", 0, 0},
		{`samplingRate: "1"`, "always_off", 4000, 4000},
	} {
		t.Run(tt.file+" "+tt.env, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", tt.env)
			s, _ := sender(t)
			p := open(t, s, load(t, "{endpoint: 127.0.0.1:1, insecure: true, tracingEnabled: true, "+tt.file+"}")).Tracer("test")
			sampled := 0
			for range 4000 {
				if _, s := p.Start(t.Context(), "one"); s.IsRecording() {
					sampled++
				}
			}
			if sampled < tt.least || sampled > tt.most {
				t.Errorf("%d of 4000 traces are sent, want %d to %d", sampled, tt.least, tt.most)
			}
			if tt.env != "" {
				return
			}
			for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
				ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags}))
				if _, s := p.Start(ctx, "below"); s.IsRecording() != flags.IsSampled() {
					t.Errorf("below a client's span with flags %s: %t", flags, s.IsRecording())
				}
			}
		})
	}
}

// A collector that refuses, hangs or is gone blocks nothing: one line of the log says so, without a secret, and
// Close returns in time.
func TestBrokenCollectors(t *testing.T) {
	hanging := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	echoes := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no\x1b[2J access with "+r.Header.Get("Authorization")+strings.Repeat(" and so on", 1000), status)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"401", echoes(401), "401 Unauthorized"},
		{"500", echoes(500), "500 Internal Server Error"},
		{"503", echoes(503), "telemetry is not sent"},
		{"hanging", hanging, "telemetry is not sent"},
		{"gone", nil, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := otlptest.Collector{Answer: tt.answer}
			at := c.Start(t)
			if tt.answer == nil {
				at = "http://" + testkit.NobodyListens
			}
			s, log := sender(t)
			s.o.Flush = 100 * time.Millisecond
			p := open(t, s, load(t, fmt.Sprintf(`{endpoint: %q, tracingEnabled: true, metricsEnabled: true, samplingRate: "1", headers: {Authorization: "Bearer %s"}}`, at, canary)))
			for range 5000 { // more than the queue holds
				span(t, p, "one")
			}
			s.Close()
			testkit.Eventually(t, "a line of the log", func() bool { return log.String() != "" })
			got := log.String()
			if !strings.Contains(got, tt.want) || strings.Count(got, "\n") != 1 || len(got) > 1000 {
				t.Errorf("the log, want one line with %q: %s", tt.want, got)
			}
			if strings.Contains(got, canary) || strings.Contains(got, "\x1b") {
				t.Errorf("the log shows what it may not: %q", got)
			}
		})
	}
}

// A changed configuration takes effect at once, and an equal one changes nothing.
func TestChanges(t *testing.T) {
	var c otlptest.Collector
	at := c.Start(t)
	s, _ := sender(t)
	file := func(key string) *config.Config {
		return load(t, fmt.Sprintf(`{endpoint: %q, tracingEnabled: true, samplingRate: "1", headers: {X-Key: %q}}`, at, key))
	}
	first := open(t, s, file("first key"))
	span(t, first, "one")
	if open(t, s, file("first key")) != first {
		t.Error("the same configuration begins anew")
	}
	refused, err := s.Open(file("never used")) // the rest of the configuration is refused: begin is not called
	if err != nil || refused == nil {
		t.Fatal(err)
	}
	span(t, first, "two")
	second := open(t, s, file("second key"))
	testkit.Eventually(t, "the spans before", func() bool { return len(c.Spans()) == 2 })
	if got := c.Header("/v1/traces", "X-Key"); got != "first key" {
		t.Errorf("the spans before came with %q", got)
	}
	span(t, second, "three")
	if p := open(t, s, load(t, "{}")); p != nil {
		t.Error("spans are made without telemetry")
	}
	s.Close()
	if got := c.Header("/v1/traces", "X-Key"); got != "second key" || len(c.Spans()) != 3 {
		t.Errorf("%d spans, the last with %q", len(c.Spans()), got)
	}
}

// Certificates that cannot be read any more refuse a configuration, and the old one stays in effect.
func TestCertificatesThatAreGone(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testkit.NewAuthority(t).WriteCert(t, ca)
	s, _ := sender(t)
	cfg := load(t, "{endpoint: 127.0.0.1:1, tracingEnabled: true, caCertPath: "+ca+"}")
	for _, break_ := range []func() error{func() error { return os.WriteFile(ca, []byte("none"), 0o600) }, func() error { return os.Remove(ca) }} {
		if err := break_(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(cfg); err == nil || !strings.HasPrefix(err.Error(), "telemetry.caCertPath: ") {
			t.Errorf("Open: %v", err)
		}
	}
}

// Log lines of OpenTelemetry's packages about malformed variables do not contain their values.
func TestMalformedVariables(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization "+canary+",x-key=%zz"+canary)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", canary)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	s, log := sender(t)
	open(t, s, load(t, "{}"))
	s.Close()
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log: %s", log)
	}
	for _, want := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT: want a URL", "OTEL_RESOURCE_ATTRIBUTES: want name=value", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "opentelemetry: parse headers"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
}

// At most once a minute the log says that nothing is sent, with the number of failures.
func TestReportsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Buffer
		r := newReporter(slog.New(slog.NewTextHandler(&log, nil)))
		for range 180 {
			r.failed("traces", context.DeadlineExceeded)
			time.Sleep(time.Second)
		}
		if got := strings.Count(log.String(), "\n"); got != 3 {
			t.Errorf("%d lines in three minutes: %s", got, log.String())
		}
		if !strings.Contains(log.String(), "failuresBefore=59") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
