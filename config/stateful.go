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

// exclusively is what gives each client a process of its own. Clients of revision 2026-07-28 have no sessions, and are told apart
// by who is authenticated.
func exclusively(c *Config) string {
	switch {
	case c.IncomingAuth.Type != "" && c.IncomingAuth.Type != "anonymous":
		return "sessions: exclusive"
	case IsLoopback(c.Listen):
		return "sessions: exclusive and incomingAuth: {type: local}"
	}
	return "sessions: exclusive and incomingAuth with a login"
}
