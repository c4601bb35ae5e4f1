package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/visible"
)

// What servers write reaches a terminal only through the functions here: it may have
// characters that a terminal obeys, or that make a text read like another one. Results
// that go to a file or a program stay as they are.

// shown is a text of results.
func (a *app) shown(text string) string {
	if isTerminal(a.out) {
		return visible.Text(text)
	}
	return text
}

// cell is a text in a table of results, where a line break would make a row of its own.
func (a *app) cell(text string) string {
	if isTerminal(a.out) {
		return visible.Line(text)
	}
	return lineBreaks.Replace(text)
}

var lineBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`, "\f", `\f`)

// shownJSON is a JSON text of results, with escapes where a terminal would obey: it is
// the same value.
func (a *app) shownJSON(text []byte) []byte {
	if isTerminal(a.out) {
		return visible.JSON(text)
	}
	return text
}

// tell writes a message for a person, and a mark before each of its lines: none passes for
// another message.
func tell(screen io.Writer, message string) {
	for line := range strings.SplitSeq(visible.Text(message), "\n") {
		fmt.Fprintln(screen, "vmcp: "+line)
	}
}
