// Package codes is the table of the problems that checks find: what each means, an example that
// has it and one that has not. The command line, the documentation and tests read it.
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
	// Needs says what has to be known: S the text, L the tools' schemas, T types that flow.
	Needs string
	// Short says in one line what is wrong, Why what comes of it.
	Short, Why string
	// Wrong is the body of a run, or a whole file where it has a def run, with § before what is
	// to blame; Right is what would be right.
	Wrong, Right string
	// Extra are other problems that the example has.
	Extra []string
}

// Find finds a code by its name.
func Find(name string) (Code, bool) {
	for _, c := range Table {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}

// Names are all codes.
func Names() []string {
	names := make([]string, len(Table))
	for i, c := range Table {
		names[i] = c.Name
	}
	return names
}

// Fixed reports whether problems of a code cannot be suppressed: nothing runs with them.
func Fixed(name string) bool {
	return name == "syntax" || name == "undefined" || name == "load"
}

// Severity is the word for a code.
func (c Code) Severity() string {
	if c.Warning {
		return "warning"
	}
	return "error"
}

// Explain writes a page about a code.
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
		fmt.Fprintf(&b, "\nWhere it is meant: # vmcp: ok(%s) at the end of the line.\n", c.Name)
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
