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
func (v *validator) hintStateful(b *Backend, at string) {
	if v.Set(at + ".sessions") {
		return
	}
	m := stateful.FindStringSubmatch(strings.Join(append([]string{b.Command}, b.Args...), " "))
	if m == nil {
		return
	}
	v.Warn(at, "%s keeps state for its client, and clients without sampling, elicitation and roots share its process; set sessions: exclusive for a process each, or sessions: auto if sharing is intended", strings.ToLower(m[2]))
}
