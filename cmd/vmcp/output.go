package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
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
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write results: %w", err)
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
