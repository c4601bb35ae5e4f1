// Package telemetry is what a configuration says of metrics and traces, by ToolHive's names.
package telemetry

// Telemetry says what is shown of what the endpoint does, and what of it is sent to a collector over OTLP/HTTP. The environment's OTEL_* variables say what is not said here; OTEL_SDK_DISABLED=true sends nothing.
type Telemetry struct {
	// Endpoint is the collector, as https://otel.example.com:4318 or host:port; /v1/traces and /v1/metrics are put behind. Without it: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_METRICS_ENDPOINT.
	Endpoint string `json:"endpoint,omitempty"`
	// ServiceName is the attribute service.name of all that is sent. Without it: OTEL_SERVICE_NAME, else the name of the configuration, else vmcp.
	ServiceName string `json:"serviceName,omitempty"`
	// ServiceVersion is the attribute service.version. Without it: the version of vmcp.
	ServiceVersion string `json:"serviceVersion,omitempty"`
	// TracingEnabled sends a trace of requests, runs, steps and calls of backends. Without it: false where endpoint is set, else whether the environment names a collector for traces.
	TracingEnabled *bool `json:"tracingEnabled,omitempty"`
	// MetricsEnabled sends the metrics of /metrics, every minute or OTEL_METRIC_EXPORT_INTERVAL. Without it: false where endpoint is set, else whether the environment has OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or OTEL_METRICS_EXPORTER=otlp.
	MetricsEnabled *bool `json:"metricsEnabled,omitempty"`
	// SamplingRate is the part of traces that is sent, from "0" to "1", of those that clients do not decide about. Without it: OTEL_TRACES_SAMPLER, else "0.05" where tracingEnabled is true, else all.
	SamplingRate string `json:"samplingRate,omitempty"`
	// Headers go with everything that is sent, such as credentials. ${NAME} is a variable of the environment. Without them: OTEL_EXPORTER_OTLP_HEADERS.
	Headers map[string]string `json:"headers,omitempty"`
	// Insecure speaks HTTP without TLS to an endpoint that is written as host:port. http:// in front says the same.
	Insecure *bool `json:"insecure,omitempty"`
	// CustomAttributes are attributes of all that is sent, beside those of OTEL_RESOURCE_ATTRIBUTES. ${NAME} is a variable of the environment.
	CustomAttributes map[string]string `json:"customAttributes,omitempty"`
	// EnablePrometheusMetricsPath serves /metrics.
	EnablePrometheusMetricsPath *bool `json:"enablePrometheusMetricsPath,omitempty" default:"true"`
	// CACertPath is a file with certificates in PEM that are trusted beside the system's, relative to the configuration file. It is read anew when it changes. Without it: OTEL_EXPORTER_OTLP_CERTIFICATE.
	CACertPath string `json:"caCertPath,omitempty"`
	// MaxToolLabels is how many tools have series of their own in metrics, in the order of the list; the rest are counted together, as tool "other". 0: no tool has.
	MaxToolLabels *int `json:"maxToolLabels,omitempty" default:"500" crd:"yes"`
}

// mostToolLabels bounds maxToolLabels.
const mostToolLabels = 100_000

// DefaultRate is the part of traces that is sent where the configuration asks for traces and nobody says how many.
const DefaultRate = "0.05"

// ToolLabels is how many tools have series of their own.
func (t *Telemetry) ToolLabels() int {
	if t.MaxToolLabels == nil {
		return 500
	}
	return *t.MaxToolLabels
}

// MetricsPath reports whether /metrics is served.
func (t *Telemetry) MetricsPath() bool {
	return t.EnablePrometheusMetricsPath == nil || *t.EnablePrometheusMetricsPath
}
