package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/formatter"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The commands of those who write scripts.

func (a *app) fmt() *cobra.Command {
	var checkOnly bool
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "format scripts, and those inside of configurations",
		Long: `Fmt gives scripts the one layout that everybody's scripts have: .star files, all of them below
folders, and in .yaml files the scripts of scriptedTools that stand behind "script: |", while every
other byte of the YAML stays. Without PATH these are vmcp.yaml and all scripts that it names;
- formats a script from standard input to standard output.

Only the layout changes: spaces, line breaks where the text has some already, the order of load
statements, which come first, those of one file as one, and '…', which becomes "…". Long lines stay
long and comments stay where they are. The meaning is compared before and after. Line ends become
LF in .star files. A file that is no script is left alone and reported, and the others are formatted.

With --check nothing is written: it prints what would change as a unified diff. The exit code is 1
when anything would, or when a file cannot be formatted.`,
		Example: "  vmcp fmt\n  vmcp fmt tools prod.yaml\n  vmcp fmt --check",
	}
	output := outputFlag(c)
	c.Flags().BoolVar(&checkOnly, "check", false, "write nothing, print the differences, and exit with 1 if there are any")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"star", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, paths []string) error {
		if len(paths) == 1 && paths[0] == "-" {
			return a.formatInput(checkOnly, *output == "json")
		}
		return a.formatFiles(c.Context(), paths, checkOnly, *output == "json")
	}
	return c
}

// formatFiles formats files in place.
func (a *app) formatFiles(ctx context.Context, paths []string, checkOnly, asJSON bool) error {
	list := formatter.Files
	if len(paths) == 0 {
		list = func([]string) ([]string, error) { return formatter.Named(defaultFile) }
	}
	names, err := list(paths)
	if err != nil {
		var usage formatter.UsageError
		if errors.As(err, &usage) {
			return usageError(usage)
		}
		return err
	}
	var results []formatter.Result
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		results = append(results, formatter.Format(name, checkOnly))
	}
	return a.showFormatted(results, checkOnly, asJSON)
}

// formatInput formats standard input to standard output. There is nothing on it when the text
// cannot be formatted: an editor would take it for the result.
func (a *app) formatInput(checkOnly, asJSON bool) error {
	data, err := io.ReadAll(io.LimitReader(a.in, config.MaxFile+1))
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	r, out := formatter.Text(standardInput, data, checkOnly)
	if checkOnly || asJSON {
		return a.showFormatted([]formatter.Result{r}, checkOnly, asJSON)
	}
	if len(r.Problems) > 0 {
		return r.Problems
	}
	if r.Err != nil {
		return r.Err
	}
	if _, err := a.out.Write(out); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// showFormatted reports what became of files.
func (a *app) showFormatted(results []formatter.Result, checkOnly, asJSON bool) error {
	var problems diag.Problems
	wrong := false
	for _, r := range results {
		problems = append(problems, r.Problems...)
		wrong = wrong || len(r.Problems) > 0 || r.Err != nil || checkOnly && r.Changed
		if r.Err != nil {
			a.report(r.Err)
		}
		if !asJSON && r.Changed && !checkOnly {
			a.say("%s: formatted", r.File)
		}
		if asJSON {
			continue
		}
		if _, err := io.WriteString(a.out, a.shown(r.Diff)); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	var err error
	if asJSON {
		err = a.printJSON(struct {
			Files    []formatter.Result `json:"files"`
			Problems diag.Problems      `json:"problems"`
		}{append([]formatter.Result{}, results...), append(diag.Problems{}, problems...)})
	} else {
		err = a.printProblems(problems, false)
	}
	if err == nil && wrong {
		err = errReported
	}
	return err
}
