package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/internal/visible"
)

// outputFlag adds --output to a command and returns where its value will be.
func outputFlag(c *cobra.Command) *string { return outputOf(c, "text", "json") }

// outputOf is outputFlag for a command with forms of its own; the first is the default.
func outputOf(c *cobra.Command, forms ...string) *string {
	last := len(forms) - 1
	list := strings.Join(forms[:last], ", ") + " or " + forms[last]
	o := c.Flags().StringP("output", "o", forms[0], "how results are written: "+list)
	complete(c, "output", forms...)
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(forms, *o) {
			return usageError("--output: want " + list + ", have " + *o)
		}
		return nil
	}
	return o
}

// complete offers the values of a flag to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// printJSON writes v indented, for machines and for eyes.
func (a *app) printJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if _, err := a.out.Write(a.shownJSON(text.Bytes())); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// printRaw writes a result as it was sent, with line breaks.
func (a *app) printRaw(result json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, result, "", "  "); err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := a.out.Write(a.shownJSON(b.Bytes()))
	return err
}

// printContent writes what a person reads of a result; an error's text goes where errors go.
func (a *app) printContent(name string, r *client.Result) error {
	for _, c := range r.Content {
		text := client.ContentText(c)
		if r.IsError {
			a.report(fmt.Errorf("%s: %s", name, text))
			continue
		}
		if _, err := fmt.Fprintln(a.out, a.shown(text)); err != nil {
			return err
		}
	}
	return nil
}

// isTerminal reports whether a reader or writer is one: somebody is there.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// What servers write reaches a terminal only through the functions here: it may have
// characters that a terminal obeys, or that make a text read like another one. Results
// that go to a file or a program stay as they are; tables are for people, who see them through
// grep and less, too.

// shown is a text of results.
func (a *app) shown(text string) string {
	if isTerminal(a.out) {
		return visible.Text(text)
	}
	return text
}

// cell is a text in a table of results, where a line break would make a row of its own.
func (a *app) cell(text string) string { return visible.Line(text) }

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
