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
	"github.com/vmcp-dev/vmcp/internal/display"
)

// outputFlag adds --output to a command and returns the address of its value.
func outputFlag(c *cobra.Command) *string { return outputOf(c, "text", "json") }

// outputOf is outputFlag for a command with other formats; the first is the default.
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

// complete sets the values of a flag for shell completion.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// printJSON writes v as indented JSON.
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

// printRaw writes the JSON of a result, indented, otherwise as it was sent.
func (a *app) printRaw(result json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, result, "", "  "); err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := a.out.Write(a.shownJSON(b.Bytes()))
	return err
}

// printContent writes the content of a result for people; the content of an error goes to standard error.
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

// isTerminal reports whether a reader or writer is a terminal.
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

// Text of servers is written to a terminal only through the following functions: it may have
// control characters, or characters that make it look like other text. Results that go to a file or
// a program are not changed, except tables, which people also view through grep and less.

// shown is a text of a result, escaped if the output is a terminal.
func (a *app) shown(text string) string {
	if isTerminal(a.out) {
		return display.VisibleText(text)
	}
	return text
}

// cell is a text in a table of results, where line breaks are escaped, too.
func (a *app) cell(text string) string { return display.VisibleLine(text) }

// shownJSON is JSON of a result, with characters escaped that a terminal would interpret: it
// has the same value.
func (a *app) shownJSON(text []byte) []byte {
	if isTerminal(a.out) {
		return display.JSON(text)
	}
	return text
}

// printMessage writes a message for a person with a prefix on each line, so that no line looks like
// another message.
func printMessage(screen io.Writer, message string) {
	for line := range strings.SplitSeq(display.VisibleText(message), "\n") {
		fmt.Fprintln(screen, "vmcp: "+line)
	}
}
