package config

import (
	"crypto/x509"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// mostEntries bounds the number of headers and of customAttributes, each; longest bounds one value, in bytes.
	mostEntries = 64
	longest     = 4096
	// maxCertificates bounds the file of caCertPath, in bytes.
	maxCertificates = 4 << 20
)

// Check reports the problems of t, whose path is path, expands variables and makes caCertPath absolute.
func (t *Telemetry) Check(path string, v *Validator) {
	if n := t.ToolLabels(); n < 0 || n > mostToolLabels {
		v.Report(path+".maxToolLabels", "want a number from 0 to %d, have %d", mostToolLabels, n)
	}
	t.checkEndpoint(path, v)
	t.checkSignals(path, v)
	if v.Set(path + ".samplingRate") {
		if rate, err := strconv.ParseFloat(t.SamplingRate, 64); err != nil || math.IsNaN(rate) || rate < 0 || rate > 1 {
			v.Report(path+".samplingRate", `want a number from 0 to 1 in quotes, such as "0.05"; have %q`, t.SamplingRate)
		}
	}
	t.checkText(path+".serviceName", t.ServiceName, v)
	t.checkText(path+".serviceVersion", t.ServiceVersion, v)
	t.checkHeaders(path+".headers", v)
	t.checkAttributes(path+".customAttributes", v)
	t.checkCertificates(path+".caCertPath", v)
}

func (t *Telemetry) checkEndpoint(path string, v *Validator) {
	at := path + ".endpoint"
	if !v.Set(at) {
		if v.Set(path + ".insecure") {
			v.Report(path+".insecure", "says how endpoint is reached; there is none (OTEL_EXPORTER_OTLP_INSECURE is for that of the environment)")
		}
		return
	}
	t.Endpoint = v.ExpandPlain(at, t.Endpoint)
	scheme, rest, has := strings.Cut(t.Endpoint, "://")
	if !has {
		scheme, rest = "https", t.Endpoint
	}
	u, err := url.Parse(scheme + "://" + rest)
	if !has && (err != nil || u.Hostname() == "") {
		v.Report(at, "want a URL such as https://otel.example.com:4318, or host:port")
		return
	}
	v.URL(at, scheme+"://"+rest)
	switch {
	case err != nil:
	case u.RawQuery != "" || u.ForceQuery:
		v.Report(at, "a query (?...) is not sent; put credentials into headers")
	case u.Port() == "4317":
		v.Warn(at, "4317 is the port of OTLP over gRPC by convention, and OTLP over HTTP is spoken here, whose port is 4318")
	}
	if t.Insecure != nil && has && *t.Insecure != (scheme == "http") {
		v.Report(path+".insecure", "contradicts endpoint, which begins with %s://; leave insecure out", scheme)
	}
}

// checkSignals checks that there is a collector if tracingEnabled or metricsEnabled is set.
func (t *Telemetry) checkSignals(path string, v *Validator) {
	if t.Endpoint != "" && !on(t.TracingEnabled) && !on(t.MetricsEnabled) {
		v.Report(path+".endpoint", "nothing is sent there: set tracingEnabled or metricsEnabled to true, or remove it")
		return
	}
	has := func(name string) bool { value, _ := v.Env(name); return value != "" }
	for _, s := range []struct {
		field, variable string
		want            bool
	}{
		{"tracingEnabled", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", on(t.TracingEnabled)},
		{"metricsEnabled", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", on(t.MetricsEnabled)},
	} {
		if s.want && !v.Set(path+".endpoint") && !has("OTEL_EXPORTER_OTLP_ENDPOINT") && !has(s.variable) {
			v.Warn(path+"."+s.field, "nothing is sent: neither endpoint nor OTEL_EXPORTER_OTLP_ENDPOINT nor %s says where to", s.variable)
		}
	}
}

func on(b *bool) bool { return b != nil && *b }

// checkText checks a string that becomes an attribute.
func (t *Telemetry) checkText(at, text string, v *Validator) {
	switch {
	case v.Set(at) && text == "":
		v.Report(at, "is empty; leave it out for the default")
	case len(text) > longest:
		v.Report(at, "want at most %d bytes, have %d", longest, len(text))
	}
}

// telemetryHeaderName is the name of an HTTP header.
var telemetryHeaderName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// telemetryOwnHeaders are set by the HTTP client.
var telemetryOwnHeaders = []string{"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding", "user-agent"}

func (t *Telemetry) checkHeaders(path string, v *Validator) {
	if len(t.Headers) > mostEntries {
		v.Report(path, "want at most %d headers, have %d", mostEntries, len(t.Headers))
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		at, lower := document.KeyPath(path, name), strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !telemetryHeaderName.MatchString(name):
			v.Report(at, "not a header's name")
		case twice:
			v.Report(at, "the same header as %s", first)
		case slices.Contains(telemetryOwnHeaders, lower):
			v.Report(at, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
		value := v.Expand(at, t.Headers[name])
		t.Headers[name] = value
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			v.Report(at, "the value holds a line break or another control character")
		}
		if len(value) > longest {
			v.Report(at, "want at most %d bytes, have %d", longest, len(value))
		}
	}
}

func (t *Telemetry) checkAttributes(path string, v *Validator) {
	if len(t.CustomAttributes) > mostEntries {
		v.Report(path, "want at most %d attributes, have %d", mostEntries, len(t.CustomAttributes))
	}
	for _, name := range slices.Sorted(maps.Keys(t.CustomAttributes)) {
		at := document.KeyPath(path, name)
		switch {
		case strings.TrimSpace(name) == "" || len(name) > longest:
			v.Report(at, "want the name of an attribute, such as deployment.environment.name")
		case name == "service.name":
			v.Report(at, "write it as telemetry.serviceName")
		case name == "service.version":
			v.Report(at, "write it as telemetry.serviceVersion")
		}
		t.CustomAttributes[name] = v.ExpandPublic(at, t.CustomAttributes[name])
		if n := len(t.CustomAttributes[name]); n > longest {
			v.Report(at, "want at most %d bytes, have %d", longest, n)
		}
	}
}

func (t *Telemetry) checkCertificates(at string, v *Validator) {
	if !v.Set(at) {
		return
	}
	given := t.CACertPath
	if given == "" {
		v.Report(at, "want the name of a file with certificates in PEM")
		return
	}
	t.CACertPath = v.Absolute(given)
	data, err := files.Read(t.CACertPath, maxCertificates)
	switch {
	case err != nil:
		v.Report(at, "%q cannot be read: %s", given, files.Cause(err))
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		v.Report(at, "%q holds no certificate in PEM", given)
	}
	if t.Insecure != nil && *t.Insecure || strings.HasPrefix(t.Endpoint, "http://") {
		v.Report(at, "is for TLS, and endpoint is reached without")
	}
}
