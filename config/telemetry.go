package config

// This part of the package is the part of the configuration about metrics and traces, with ToolHive's names.

// Telemetry is which metrics the endpoint serves, and which metrics and traces are sent to a collector over OTLP/HTTP. Fields that are not set take their values from the OTEL_* environment variables; with OTEL_SDK_DISABLED=true nothing is sent.
type Telemetry struct {
	// Endpoint is the collector, as https://otel.example.com:4318 or host:port; /v1/traces and /v1/metrics are appended. Default: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_METRICS_ENDPOINT.
	Endpoint string `json:"endpoint,omitempty"`
	// ServiceName is the resource attribute service.name. Default: OTEL_SERVICE_NAME, else the name of the configuration, else vmcp.
	ServiceName string `json:"serviceName,omitempty"`
	// ServiceVersion is the resource attribute service.version. Default: the version of vmcp.
	ServiceVersion string `json:"serviceVersion,omitempty"`
	// TracingEnabled sends traces of requests, runs, steps and calls of backends. Default: false if endpoint is set, else true if the environment names a collector for traces.
	TracingEnabled *bool `json:"tracingEnabled,omitempty"`
	// MetricsEnabled sends the metrics of /metrics, every minute or OTEL_METRIC_EXPORT_INTERVAL. Default: false if endpoint is set, else true if the environment has OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_METRICS_EXPORTER=otlp.
	MetricsEnabled *bool `json:"metricsEnabled,omitempty"`
	// SamplingRate is the ratio of traces that is sent, from "0" to "1", of those for which the client made no sampling decision. Default: OTEL_TRACES_SAMPLER, else "0.05" if tracingEnabled is true, else all.
	SamplingRate string `json:"samplingRate,omitempty"`
	// Headers are added to every request to the collector, such as credentials. ${NAME} is replaced from the environment. Default: OTEL_EXPORTER_OTLP_HEADERS.
	Headers map[string]string `json:"headers,omitempty"`
	// Insecure uses HTTP without TLS for an endpoint of the form host:port, as http:// in front of it does.
	Insecure *bool `json:"insecure,omitempty"`
	// CustomAttributes are resource attributes of all metrics and traces, in addition to those of OTEL_RESOURCE_ATTRIBUTES. ${NAME} is replaced from the environment.
	CustomAttributes map[string]string `json:"customAttributes,omitempty"`
	// EnablePrometheusMetricsPath serves /metrics.
	EnablePrometheusMetricsPath *bool `json:"enablePrometheusMetricsPath,omitempty" default:"true"`
	// CACertPath is a file with certificates in PEM that are trusted in addition to the system's, relative to the configuration file. It is reloaded when it changes. Default: OTEL_EXPORTER_OTLP_CERTIFICATE.
	CACertPath string `json:"caCertPath,omitempty"`
	// MaxToolLabels is how many tools have their own time series in metrics, in the order of the list; the others are counted together, as tool "other". 0: all are.
	MaxToolLabels *int `json:"maxToolLabels,omitempty" default:"500" crd:"yes"`
}

// mostToolLabels bounds maxToolLabels.
const mostToolLabels = 100_000

// DefaultRate is the sampling ratio if the configuration enables traces and neither it nor the environment sets one.
const DefaultRate = "0.05"

// ToolLabels is how many tools have their own time series.
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
