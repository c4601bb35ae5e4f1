package config

import (
	"regexp"
	"strings"
)

// stateful are names of well-known servers that keep something for their one client in their
// process: a browser with its pages, an open database with its transaction.
var stateful = regexp.MustCompile(`(?i)(^|[^a-z])(playwright|puppeteer|chrome-devtools|browser-use|browsermcp|selenium|sqlite|duckdb)([^a-z]|$)`)

// hintStateful warns of a child process that clients will share though it is known to keep
// state for one. Where sessions is set there is no warning.
func (v *validator) hintStateful(b *Backend, at string) {
	if v.set(at + ".sessions") {
		return
	}
	m := stateful.FindStringSubmatch(strings.Join(append([]string{b.Command}, b.Args...), " "))
	if m == nil {
		return
	}
	v.warn(at, "%s keeps state for its client, and clients that cannot be asked share its process; want sessions: exclusive for a process each, or sessions: auto if sharing is meant", strings.ToLower(m[2]))
}
