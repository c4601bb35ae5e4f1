package telemetry

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// mostEntries bounds headers and customAttributes each, longest one value of them.
	mostEntries = 64
	longest     = 4096
	// maxCertificates bounds the file of caCertPath.
	maxCertificates = 4 << 20
)

// A File is the configuration file that a Telemetry stands in.
type File struct {
	Report, Warn func(path, format string, args ...any)
	// Set reports whether the file says anything at a path.
	Set func(path string) bool
	// Key is the path of a member.
	Key func(path, name string) string
	// Secret, Plain and Public put in the variables of a text: one that is to be hidden, one that is seldom a secret
	// but for its variables, and one for others to read.
	Secret, Plain, Public func(path, text string) string
	// URL reports what is wrong with a URL.
	URL func(path, text string)
	// Absolute is a name of a file that the configuration names.
	Absolute func(name string) string
	// Env is the environment.
	Env func(name string) (string, bool)
}

// Check reports what is wrong with t, which stands at path, puts variables in and makes caCertPath absolute.
func (t *Telemetry) Check(path string, f File) {
	if n := t.ToolLabels(); n < 0 || n > mostToolLabels {
		f.Report(path+".maxToolLabels", "want a number from 0 to %d, have %d", mostToolLabels, n)
	}
	t.checkEndpoint(path, f)
	t.checkSignals(path, f)
	if f.Set(path + ".samplingRate") {
		if rate, err := strconv.ParseFloat(t.SamplingRate, 64); err != nil || math.IsNaN(rate) || rate < 0 || rate > 1 {
			f.Report(path+".samplingRate", `want a number from 0 to 1 in quotes, such as "0.05"; have %q`, t.SamplingRate)
		}
	}
	t.checkText(path+".serviceName", t.ServiceName, f)
	t.checkText(path+".serviceVersion", t.ServiceVersion, f)
	t.checkHeaders(path+".headers", f)
	t.checkAttributes(path+".customAttributes", f)
	t.checkCertificates(path+".caCertPath", f)
}

func (t *Telemetry) checkEndpoint(path string, f File) {
	at := path + ".endpoint"
	if !f.Set(at) {
		if f.Set(path + ".insecure") {
			f.Report(path+".insecure", "says how endpoint is reached; there is none (OTEL_EXPORTER_OTLP_INSECURE is for that of the environment)")
		}
		return
	}
	t.Endpoint = f.Plain(at, t.Endpoint)
	scheme, rest, has := strings.Cut(t.Endpoint, "://")
	if !has {
		scheme, rest = "https", t.Endpoint
	}
	u, err := url.Parse(scheme + "://" + rest)
	if !has && (err != nil || u.Hostname() == "") {
		f.Report(at, "want a URL such as https://otel.example.com:4318, or host:port")
		return
	}
	f.URL(at, scheme+"://"+rest)
	switch {
	case err != nil:
	case u.RawQuery != "" || u.ForceQuery:
		f.Report(at, "a query (?...) is not sent; put credentials into headers")
	case u.Port() == "4317":
		f.Warn(at, "4317 is the port of OTLP over gRPC by convention, and OTLP over HTTP is spoken here, whose port is 4318")
	}
	if t.Insecure != nil && has && *t.Insecure != (scheme == "http") {
		f.Report(path+".insecure", "contradicts endpoint, which begins with %s://; leave insecure out", scheme)
	}
}

// checkSignals holds tracingEnabled and metricsEnabled to there being a collector.
func (t *Telemetry) checkSignals(path string, f File) {
	if t.Endpoint != "" && !on(t.TracingEnabled) && !on(t.MetricsEnabled) {
		f.Report(path+".endpoint", "nothing is sent there: set tracingEnabled or metricsEnabled to true, or remove it")
		return
	}
	has := func(name string) bool { value, _ := f.Env(name); return value != "" }
	for _, s := range []struct {
		field, variable string
		want            bool
	}{
		{"tracingEnabled", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", on(t.TracingEnabled)},
		{"metricsEnabled", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", on(t.MetricsEnabled)},
	} {
		if s.want && !f.Set(path+".endpoint") && !has("OTEL_EXPORTER_OTLP_ENDPOINT") && !has(s.variable) {
			f.Warn(path+"."+s.field, "nothing is sent: neither endpoint nor OTEL_EXPORTER_OTLP_ENDPOINT nor %s says where to", s.variable)
		}
	}
}

func on(b *bool) bool { return b != nil && *b }

// checkText checks a text that becomes an attribute.
func (t *Telemetry) checkText(at, text string, f File) {
	switch {
	case f.Set(at) && text == "":
		f.Report(at, "is empty; leave it out for the default")
	case len(text) > longest:
		f.Report(at, "want at most %d bytes, have %d", longest, len(text))
	}
}

// headerName is the name of an HTTP header.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are set by who sends.
var ownHeaders = []string{"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding", "user-agent"}

func (t *Telemetry) checkHeaders(path string, f File) {
	if len(t.Headers) > mostEntries {
		f.Report(path, "want at most %d headers, have %d", mostEntries, len(t.Headers))
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		at, lower := f.Key(path, name), strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !headerName.MatchString(name):
			f.Report(at, "not a header's name")
		case twice:
			f.Report(at, "the same header as %s", first)
		case slices.Contains(ownHeaders, lower):
			f.Report(at, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
		value := f.Secret(at, t.Headers[name])
		t.Headers[name] = value
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.Report(at, "the value holds a line break or another control character")
		}
		if len(value) > longest {
			f.Report(at, "want at most %d bytes, have %d", longest, len(value))
		}
	}
}

func (t *Telemetry) checkAttributes(path string, f File) {
	if len(t.CustomAttributes) > mostEntries {
		f.Report(path, "want at most %d attributes, have %d", mostEntries, len(t.CustomAttributes))
	}
	for _, name := range slices.Sorted(maps.Keys(t.CustomAttributes)) {
		at := f.Key(path, name)
		switch {
		case strings.TrimSpace(name) == "" || len(name) > longest:
			f.Report(at, "want the name of an attribute, such as deployment.environment.name")
		case name == "service.name":
			f.Report(at, "write it as telemetry.serviceName")
		case name == "service.version":
			f.Report(at, "write it as telemetry.serviceVersion")
		}
		t.CustomAttributes[name] = f.Public(at, t.CustomAttributes[name])
		if n := len(t.CustomAttributes[name]); n > longest {
			f.Report(at, "want at most %d bytes, have %d", longest, n)
		}
	}
}

func (t *Telemetry) checkCertificates(at string, f File) {
	if !f.Set(at) {
		return
	}
	given := t.CACertPath
	if given == "" {
		f.Report(at, "want the name of a file with certificates in PEM")
		return
	}
	t.CACertPath = f.Absolute(given)
	data, err := files.Read(t.CACertPath, maxCertificates)
	switch {
	case err != nil:
		f.Report(at, "%q cannot be read: %s", given, reason(err))
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		f.Report(at, "%q holds no certificate in PEM", given)
	}
	if t.Insecure != nil && *t.Insecure || strings.HasPrefix(t.Endpoint, "http://") {
		f.Report(at, "is for TLS, and endpoint is reached without")
	}
}

// reason is why a file could not be read, without its name.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}
