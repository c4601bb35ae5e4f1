package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

func (e Env) describe() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "describe TOOL",
		Short: "describe a tool of a running endpoint: its schemas, an example, the form of its result in scripts",
		Long: `Describe shows a tool of a running endpoint: its origin, its schemas, arguments that are valid for its
schema, how to call it from a shell and from a script, and the keys and types, never the values, of its
last result, unless that was large.` + cli.Of(status.Tool{}),
		Example: "  vmcp describe github_create_issue\n  vmcp describe github_create_issue --output json | jq .example",
		Args:    cobra.ExactArgs(1),
	}
	f.register(c, e)
	output := e.Output(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.tools(c.Context(), args, e.Line), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		at, err := f.open()
		if err != nil {
			return err
		}
		var t status.Tool
		if err := at.fetch(c.Context(), "tools/"+segment(args[0]), &t); err != nil {
			return err
		}
		if *output == "json" {
			return e.JSON(t)
		}
		return e.printTool(&t, time.Now())
	}
	return c
}

// printTool prints the description of a tool.
func (e Env) printTool(t *status.Tool, now time.Time) error {
	var b strings.Builder
	from := t.Backend + "." + t.Original
	if t.Scripted {
		from = strings.TrimSpace("script " + t.Source)
	}
	if t.Hidden {
		from += " (hidden: only scripts can call it)"
	}
	fmt.Fprintf(&b, "%s  %s\n", e.Line(t.Name), e.Line(from))
	if text := cmp.Or(t.Description, t.Title); text != "" {
		b.WriteString("\n" + e.paragraph(text) + "\n")
	}
	e.section(&b, "input schema", t.InputSchema)
	e.section(&b, "output schema", t.OutputSchema)
	e.section(&b, "annotations", t.Annotations)
	e.section(&b, "example", t.Example)
	if t.Call != "" {
		fmt.Fprintf(&b, "\ncall:    %s\n", e.Line(t.Call))
	}
	fmt.Fprintf(&b, "script:  %s\n", e.Line(t.Script))
	if t.LastResult != nil {
		e.section(&b, "last result, "+age(t.LastResult.At, now)+" ago, as a script gets it", t.LastResult.Shape)
	}
	_, err := fmt.Fprint(e.Out, b.String())
	return err
}

// paragraph is a text of a backend, line by line.
func (e Env) paragraph(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, e.Line(strings.TrimRight(line, " \t\r\n")))
	}
	return strings.Join(lines, "\n")
}

// section prints JSON under a title.
func (e Env) section(b *strings.Builder, title string, text json.RawMessage) {
	if len(text) == 0 {
		return
	}
	var indented bytes.Buffer
	if json.Indent(&indented, text, "  ", "  ") != nil {
		return
	}
	fmt.Fprintf(b, "\n%s:\n  %s\n", title, e.paragraph(indented.String()))
}

// tools completes names of tools; it returns none if the endpoint does not answer soon.
func (f *flags) tools(ctx context.Context, args []string, line func(string) string) (names []string) {
	if len(args) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	at, err := f.open()
	if err != nil {
		return nil
	}
	var all struct{ Tools []status.ToolRow }
	if at.fetch(ctx, "tools", &all) != nil {
		return nil
	}
	for _, t := range all.Tools {
		names = append(names, cobra.CompletionWithDesc(line(t.Name), line(display.ClipLine(t.Description, 80))))
	}
	return names
}
