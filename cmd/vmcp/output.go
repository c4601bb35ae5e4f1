package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
)

// outputFlag adds --output to a command and returns where its value will be.
func outputFlag(c *cobra.Command) *string {
	o := c.Flags().StringP("output", "o", "text", "how results are written: text or json")
	complete(c, "output", "text", "json")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *o != "text" && *o != "json" {
			return usageError("--output: want text or json, have " + *o)
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
