package builtins

import (
	"fmt"
	"io"
	"strings"

	"go.starlark.net/starlarkstruct"
)

// WriteReference writes the reference page of the table, in Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, f := range Table() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", f.Name, f.Name, f.Help)
	}
	for _, f := range Table() {
		fmt.Fprintf(&b, "\n## %s\n\n", f.Name)
		if _, isModule := f.Value.(*starlarkstruct.Module); !isModule {
			fmt.Fprintf(&b, "```python\n%s\n```\n\n", f.Signature)
		}
		fmt.Fprintf(&b, "%s.", strings.ToUpper(f.Help[:1])+f.Help[1:])
		if f.Details != "" {
			fmt.Fprintf(&b, "\n\n%s", strings.TrimSpace(f.Details))
		}
		fmt.Fprintf(&b, "\n\n```python\n%s\n```\n", strings.TrimSpace(string(f.Example)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const referenceHead = `# What scripts can call

Generated from the table in ` + "`builtins/table.go`" + `; every example here runs as a test.
The language itself is described in [Scripting](../scripting.md), the limits in
[Limits](../limits.md). Arguments are given by position or by name. A duration is a string
such as ` + "`\"1m30s\"`" + ` or a number of seconds.

| Name | What it does |
|---|---|
`
