package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// plan is what is sent and how, from a configuration and the environment. A plan equal to the last needs no restart.
type plan struct {
	Traces, Metrics *target // nil: not sent

	DefaultName   string // of the service, where neither names it
	Name, Version string // "": from the environment, else the default
	Attributes    map[string]string
	Headers       map[string]string // nil: those of the environment
	Rate          float64           // negative: from the environment

	Hidden   []string // secrets of the environment
	Warnings []string // about variables that are probably a mistake
}

// target is where and how one signal is sent.
type target struct {
	URL    string // "": from the environment
	OwnTLS bool   // TLS uses the fields below, not the environment
	CA     string // trusted besides the system's, in PEM
	Pair   [2]string
	pair   *tls.Certificate
}

// maxCertificates bounds a file of certificates, in bytes.
const maxCertificates = 4 << 20

// resolve merges a configuration and the environment. The configuration has precedence.
func resolve(cfg *config.Config, o ExporterOptions) (plan, error) {
	t, env := &cfg.Telemetry, o.Env
	p := plan{Rate: -1}
	if disabled, _ := strconv.ParseBool(env("OTEL_SDK_DISABLED")); disabled {
		return p, nil
	}
	general := env("OTEL_EXPORTER_OTLP_ENDPOINT")
	traces, metrics := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
	var err error
	if want(t.TracingEnabled, t.Endpoint == "" && cmp.Or(traces, general) != "" && env("OTEL_TRACES_EXPORTER") != "none") {
		if p.Traces, err = targetOf(t, env, "TRACES", cmp.Or(traces, general)); err != nil {
			return p, err
		}
	}
	if want(t.MetricsEnabled, t.Endpoint == "" && env("OTEL_METRICS_EXPORTER") != "none" && (metrics != "" || general != "" && env("OTEL_METRICS_EXPORTER") == "otlp")) {
		if p.Metrics, err = targetOf(t, env, "METRICS", cmp.Or(metrics, general)); err != nil {
			return p, err
		}
	}
	if p.Traces == nil && p.Metrics == nil {
		return p, nil
	}
	p.DefaultName, p.Name, p.Version = cmp.Or(cfg.Name, "vmcp"), t.ServiceName, t.ServiceVersion
	p.Attributes, p.Headers, p.Rate = t.CustomAttributes, t.Headers, rate(t, env)
	p.Hidden, p.Warnings = hidden(env), warnings(env)
	return p, nil
}

// want is the value of the configuration, or else a default.
func want(said *bool, otherwise bool) bool {
	if said != nil {
		return *said
	}
	return otherwise
}

// rate is the fraction of traces that is sent; negative: as the environment says, or all.
func rate(t *config.Telemetry, env func(string) string) float64 {
	text := t.SamplingRate
	if text == "" && t.TracingEnabled != nil && env("OTEL_TRACES_SAMPLER") == "" {
		text = config.DefaultRate
	}
	if text == "" {
		return -1
	}
	r, err := strconv.ParseFloat(text, 64)
	if err != nil { // only a configuration made in Go is not validated
		return 0
	}
	return r
}

// targetOf returns the target of a signal; nil: no endpoint is named, which validation warns of.
func targetOf(t *config.Telemetry, env func(string) string, signal, environment string) (*target, error) {
	to := &target{}
	switch {
	case t.Endpoint != "":
		insecure, _ := strconv.ParseBool(env("OTEL_EXPORTER_OTLP_INSECURE"))
		to.URL = endpoint(t.Endpoint, want(t.Insecure, insecure)) + "/v1/" + strings.ToLower(signal)
	case environment == "":
		return nil, nil
	}
	plain := strings.HasPrefix(cmp.Or(to.URL, environment), "http://")
	to.OwnTLS = t.CACertPath != "" || to.URL != "" && plain
	if t.CACertPath == "" || plain {
		return to, nil
	}
	ca, err := files.Read(t.CACertPath, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("telemetry.caCertPath: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("telemetry.caCertPath: %s: no certificates", t.CACertPath)
	}
	to.CA = string(ca)
	return to, to.clientCertificate(func(name string) string {
		return cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_"+name), env("OTEL_EXPORTER_OTLP_"+name))
	})
}

// endpoint adds a scheme to an address without one, and removes slashes at the end.
func endpoint(text string, insecure bool) string {
	if !strings.Contains(text, "://") {
		scheme := "https://"
		if insecure {
			scheme = "http://"
		}
		text = scheme + text
	}
	return strings.TrimRight(text, "/")
}

// clientCertificate reads the client certificate that the environment names.
func (t *target) clientCertificate(env func(string) string) error {
	t.Pair = [2]string{env("CLIENT_CERTIFICATE"), env("CLIENT_KEY")}
	if t.Pair[0] == "" || t.Pair[1] == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(t.Pair[0], t.Pair[1])
	if err != nil {
		return errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY cannot be read as a certificate and its key")
	}
	t.pair = &pair
	return nil
}

// secure is the TLS configuration; nil for the default.
func (t *target) secure() *tls.Config {
	if t.CA == "" {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM([]byte(t.CA))
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if t.pair != nil {
		c.Certificates = []tls.Certificate{*t.pair}
	}
	return c
}

// hidden returns the secrets in the environment.
func hidden(env func(string) string) (found []string) {
	for _, signal := range []string{"", "TRACES_", "METRICS_"} {
		found = append(found, secret.InURL(env("OTEL_EXPORTER_OTLP_"+signal+"ENDPOINT"))...)
		for pair := range strings.SplitSeq(env("OTEL_EXPORTER_OTLP_"+signal+"HEADERS"), ",") {
			_, value, _ := strings.Cut(pair, "=")
			found = append(found, credentials(strings.TrimSpace(value))...)
			if plain, err := url.PathUnescape(value); err == nil && plain != value {
				found = append(found, credentials(strings.TrimSpace(plain))...)
			}
		}
	}
	return found
}

// credentials are the value of a header, and its part after the scheme.
func credentials(value string) []string {
	if _, behind, ok := strings.Cut(value, " "); ok {
		return []string{value, behind}
	}
	return []string{value}
}

// secrets are what the log has to hide.
func (p *plan) secrets() []string {
	found := p.Hidden
	for _, value := range p.Headers {
		found = append(found, credentials(value)...)
	}
	for _, t := range []*target{p.Traces, p.Metrics} {
		if t != nil {
			found = append(found, secret.InURL(t.URL)...)
		}
	}
	return found
}

// warnings are about variables of the environment that are probably a mistake.
func warnings(env func(string) string) (found []string) {
	if env("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc" {
		found = append(found, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: OTLP is sent over HTTP here, whose port is 4318 by convention")
	}
	for _, signal := range []string{"", "TRACES_", "METRICS_"} {
		name := "OTEL_EXPORTER_OTLP_" + signal + "ENDPOINT"
		if text := env(name); text != "" && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			found = append(found, name+": want a URL that begins with http:// or https://, such as http://localhost:4318")
		}
	}
	return found
}
