package config

import (
	"regexp"
	"strings"
)

// stateful matches the names of well-known servers with state in their process that belongs to one
// client: a browser with its pages, an open database with its transaction.
var stateful = regexp.MustCompile(`(?i)(^|[^a-z])(playwright|puppeteer|chrome-devtools|browser-use|browsermcp|selenium|sqlite|duckdb)([^a-z]|$)`)

// hintStateful warns if a child process that is known to be stateful would be shared by clients. It
// does not if sessions is set.
func (v *validator) hintStateful(c *Config, b *Backend, at string) {
	if b.Command == "" || v.Set(at+".sessions") {
		return
	}
	m := stateful.FindStringSubmatch(strings.Join(append([]string{b.Command}, b.Args...), " "))
	if m == nil {
		return
	}
	v.Warn(at, "%s keeps state for its client, and clients without sampling, elicitation and roots share its process; set %s for a process each, or sessions: auto if sharing is intended", strings.ToLower(m[2]), exclusively(c))
}

// exclusively is what gives each client a process of its own.
func exclusively(c *Config) string {
	if missing := identifying(c); missing != "" {
		return "sessions: exclusive and " + missing
	}
	return "sessions: exclusive"
}

// identifying is the setting that is missing to tell clients of revision 2026-07-28 apart: they have no sessions, and are told
// apart by who is authenticated.
func identifying(c *Config) string {
	switch {
	case c.IncomingAuth.Type != "" && c.IncomingAuth.Type != "anonymous":
		return ""
	case IsLoopback(c.Listen):
		return "incomingAuth: {type: local}"
	}
	return "incomingAuth with a login"
}

// hintAnonymous warns if a backend has a session for each client where nobody is authenticated.
func (v *validator) hintAnonymous(c *Config, b *Backend, at string) {
	if missing := identifying(c); b.Sessions == "exclusive" && missing != "" {
		v.Warn(at+".sessions", "clients of revision 2026-07-28 that are not authenticated are refused, because they cannot be distinguished; set %s", missing)
	}
}
