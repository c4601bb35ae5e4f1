package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// defaultFile is the configuration file of a folder.
const defaultFile = "vmcp.yaml"

func (a *app) validate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "check configuration files and the scripts in them",
		Long: `Validate checks configuration files and compiles the scripts in them, as serve would,
but without starting backends. It says nothing when all is well, and otherwise tells every
problem with its file, line and column. Without FILE it checks vmcp.yaml; - is standard input.`,
		Example: "  vmcp validate\n  vmcp validate prod/*.yaml --output json",
	}
	output := outputFlag(c)
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(_ *cobra.Command, files []string) error {
		if len(files) == 0 {
			files = []string{defaultFile}
		}
		var problems []error
		for _, name := range files {
			problems = append(problems, a.check(name)...)
		}
		if *output == "json" {
			return a.problemsJSON(problems)
		}
		return errors.Join(problems...)
	}
	return c
}

// check returns the problems of one file.
func (a *app) check(name string) []error {
	cfg, err := a.load(name)
	if err == nil {
		err = proxy.Check(cfg)
	}
	return split(err)
}

// load reads a configuration file, or standard input for "-".
func (a *app) load(name string) (*config.Config, error) {
	if name != "-" {
		return config.Load(name)
	}
	data, err := io.ReadAll(a.in)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return config.Parse("<stdin>", data)
}

// split takes apart what holds several problems.
func split(err error) []error {
	var errs []error
	var listed config.Errors
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
	case ok:
		for _, e := range joined.Unwrap() {
			errs = append(errs, split(e)...)
		}
	case errors.As(err, &listed):
		for _, p := range listed {
			errs = append(errs, p)
		}
	default:
		errs = append(errs, err)
	}
	return errs
}

// problemsJSON writes the problems for a machine. The exit code still tells.
func (a *app) problemsJSON(problems []error) error {
	report := struct {
		Valid    bool             `json:"valid"`
		Problems []config.Problem `json:"problems"`
	}{len(problems) == 0, []config.Problem{}}
	for _, err := range problems {
		var p config.Problem
		if !errors.As(err, &p) {
			p.Message = strings.TrimSpace(err.Error())
		}
		report.Problems = append(report.Problems, p)
	}
	if err := a.printJSON(report); err != nil || report.Valid {
		return err
	}
	return errTold
}
