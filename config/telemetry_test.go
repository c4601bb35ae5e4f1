package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// The telemetry settings are complete after loading: variables are expanded, the path is absolute, values of headers are
// secrets, and a change of the certificates is detected.
func TestTelemetry(t *testing.T) {
	env := map[string]string{"KEY": "a key of the collector", "HOST": "otel.example.com", "STAGE": "production"}
	dir := t.TempDir()
	testkit.NewAuthority(t).WriteCert(t, filepath.Join(dir, "ca.pem"))
	c, err := parse(filepath.Join(dir, "vmcp.yaml"), []byte(`
telemetry:
  endpoint: https://${HOST}:4318/otlp/
  tracingEnabled: true
  samplingRate: "0.25"
  headers: {Authorization: "Bearer ${KEY}", X-Literal: another secret}
  customAttributes: {stage: "${STAGE}"}
  caCertPath: ca.pem
`), func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	s := c.Telemetry
	if s.Endpoint != "https://otel.example.com:4318/otlp/" || s.Headers["Authorization"] != "Bearer a key of the collector" || s.CustomAttributes["stage"] != "production" {
		t.Errorf("variables are not put in: %+v", s)
	}
	if s.CACertPath != filepath.Join(dir, "ca.pem") || !slices.Contains(c.Reads().Files, s.CACertPath) {
		t.Errorf("caCertPath %q, read: %q", s.CACertPath, c.Reads().Files)
	}
	for _, want := range []string{"a key of the collector", "another secret"} {
		if !slices.Contains(c.Secrets(), want) {
			t.Errorf("Secrets() = %q, want %q among them", c.Secrets(), want)
		}
	}
	if slices.Contains(c.Secrets(), "production") {
		t.Error("an attribute, which others shall read, is a secret")
	}
	if !s.MetricsPath() || len(c.Warnings()) > 0 {
		t.Errorf("/metrics is served: %t; warnings: %v", s.MetricsPath(), c.Warnings())
	}
}

func TestTelemetryWarnings(t *testing.T) {
	for _, tt := range []struct{ file, env, want string }{
		{"{tracingEnabled: true}", "", "telemetry.tracingEnabled: nothing is sent: neither endpoint nor OTEL_EXPORTER_OTLP_ENDPOINT nor OTEL_EXPORTER_OTLP_TRACES_ENDPOINT says where to"},
		{"{metricsEnabled: true}", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "telemetry.metricsEnabled: nothing is sent"},
		{"{tracingEnabled: true}", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""},
		{"{tracingEnabled: true, metricsEnabled: true}", "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		{"{tracingEnabled: true, endpoint: 'otel:4317'}", "", "4317 is the port of OTLP over gRPC"},
		{"{tracingEnabled: true, endpoint: 'otel:4318'}", "", ""},
	} {
		c, err := parse("vmcp.yaml", []byte("telemetry: "+tt.file), func(name string) (string, bool) {
			v, ok := map[string]string{tt.env: "http://x"}[name]
			return v, ok
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Warnings(); (len(got) > 0) != (tt.want != "") || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%s with %s: warnings %v, want %q", tt.file, tt.env, got, tt.want)
		}
	}
}
