package config

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Secrets are the values that are redacted in all output: the headers of backends and of
// telemetry, variables of the environment that were expanded in a header or in the environment of
// a child process, and values with the name or the form of a secret in such an environment or in
// a URL.
func (c *Config) Secrets() []string {
	found := slices.Clone(c.expanded)
	for i := range c.Backends {
		b := &c.Backends[i]
		for _, name := range keys(b.Headers) {
			found = append(found, inHeader(name, b.Headers[name])...)
		}
		for _, name := range keys(b.Env) {
			found = append(found, inEnv(name, b.Env[name])...)
		}
		found = append(found, secret.InURL(b.URL)...)
	}
	for _, name := range keys(c.Telemetry.Headers) {
		found = append(found, inHeader(name, c.Telemetry.Headers[name])...)
	}
	found = append(found, secret.InURL(c.Telemetry.Endpoint)...)
	return append(found, c.OutgoingAuth.secrets()...)
}

// Variables are the names of the expanded variables by their values.
func (c *Config) Variables() map[string]string { return c.named }

// Warnings are the problems of severity warning.
func (c *Config) Warnings() diag.Problems { return c.warnings }

// inHeader are the secrets of a header: its value, and the parts of it that a server may quote
// separately.
func inHeader(name, value string) []string {
	found := []string{value}
	if strings.EqualFold(name, "Cookie") {
		for pair := range strings.SplitSeq(value, ";") {
			_, v, _ := strings.Cut(pair, "=")
			found = append(found, v)
		}
	}
	scheme, credential, ok := strings.Cut(value, " ")
	if !ok {
		return found
	}
	found = append(found, credential)
	if user, err := base64.StdEncoding.DecodeString(credential); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(user), ":")
		found = append(found, string(user), password)
	}
	return found
}

// inEnv are the secrets in a variable of a child process.
func inEnv(name, value string) []string {
	if secret.Named(name) || secret.Looks(value) {
		return []string{value}
	}
	if strings.Contains(value, "://") {
		return secret.InURL(value)
	}
	return nil
}
