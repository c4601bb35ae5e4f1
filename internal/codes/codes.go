// Package codes is the table of the problems that checks find: the meaning of each, an example with it and one
// without. The command line, the documentation and tests use it.
package codes

import (
	"fmt"
	"io"
	"strings"
)

// Code is a kind of problem.
type Code struct {
	Name    string
	Warning bool
	// Needs is what the check requires: S the text, L the tools' schemas, T types of values.
	Needs string
	// Short describes the problem in one line, Why its consequence.
	Short, Why string
	// Wrong is the body of a run, or a whole file if it defines run, with § before the problem; Right is a corrected
	// version.
	Wrong, Right string
	// Extra are other problems that the example has.
	Extra []string
}

// Find returns a code by its name.
func Find(name string) (Code, bool) {
	for _, c := range Table {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}

// Names returns the names of all codes.
func Names() []string {
	names := make([]string, len(Table))
	for i, c := range Table {
		names[i] = c.Name
	}
	return names
}

// Fixed reports whether problems of a code cannot be suppressed: no script with them runs.
func Fixed(name string) bool {
	return name == "syntax" || name == "undefined" || name == "load"
}

// Severity returns "error" or "warning".
func (c Code) Severity() string {
	if c.Warning {
		return "warning"
	}
	return "error"
}

// Explain writes a description of a code.
func (c Code) Explain(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n\n%s\n", c.Name, c.Severity(), c.Short, c.Why)
	if c.Wrong != "" {
		fmt.Fprintf(&b, "\nWrong:\n\n%s\n", indented(strings.ReplaceAll(c.Wrong, "§", "")))
	}
	if c.Right != "" {
		fmt.Fprintf(&b, "\nRight:\n\n%s\n", indented(c.Right))
	}
	if !Fixed(c.Name) {
		fmt.Fprintf(&b, "\nWhere it is intended: # vmcp: ok(%s) at the end of the line.\n", c.Name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// WriteDocs writes the table as a part of the documentation, in Markdown.
func WriteDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| Code | | Needs | What is wrong |\n|---|---|---|---|\n")
	for _, c := range Table {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", c.Name, c.Name, c.Severity(), c.Needs, strings.ReplaceAll(c.Short, "|", `\|`))
	}
	for _, c := range Table {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", c.Name, c.Why)
		if c.Wrong != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimRight(strings.ReplaceAll(c.Wrong, "§", ""), "\n"))
		}
		if c.Right != "" {
			fmt.Fprintf(&b, "\nRight:\n\n```text\n%s\n```\n", strings.TrimRight(c.Right, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
