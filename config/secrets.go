package config

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Secrets are the values that must not stand in anything that is written: the headers
// of backends and of telemetry, variables of the environment that went into a header or a child's
// environment, and what has the name or the look of a secret in a child's environment
// or a URL.
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

// Variables are the names of variables by the values that the configuration has through them.
func (c *Config) Variables() map[string]string { return c.named }

// Warnings are what is not wrong and may not be meant.
func (c *Config) Warnings() diag.Problems { return c.warnings }

// inHeader are the secrets of a header: its value, and the parts of it that a server
// may speak of by themselves.
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

// inEnv are the secrets of a variable that a child gets.
func inEnv(name, value string) []string {
	if secret.Named(name) || secret.Looks(value) {
		return []string{value}
	}
	if strings.Contains(value, "://") {
		return secret.InURL(value)
	}
	return nil
}

// everyChild are variables that every child has, and that are no secrets.
var everyChild = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "HOSTNAME"}

// expandedSecret notes the value of a variable that the value at path is made of.
func (v *validator) expandedSecret(path, name, value string) {
	v.expandedVariable(name, value)
	if !slices.Contains(everyChild, name) {
		v.tooShort(path, value)
	}
}

// expandedVariable notes the value of a variable that stands in any text.
func (v *validator) expandedVariable(name, value string) {
	if !slices.Contains(everyChild, name) && value != "" {
		v.secrets = append(v.secrets, value)
		if v.named == nil {
			v.named = map[string]string{}
		}
		v.named[value] = name
	}
}

// tooShort warns of a secret that cannot be hidden.
func (v *validator) tooShort(path, value string) {
	if value != "" && len(strings.TrimSpace(value)) < secret.Shortest {
		v.warn(path, "a secret of fewer than %d characters is not hidden in errors and logs, where it may stand by chance", secret.Shortest)
	}
}
