package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/migration"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/proxy"
)

// defaultFile is the configuration file of a folder.
const defaultFile = "vmcp.yaml"

func (a *app) validate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "check configuration files and the scripts in them",
		Long: `Validate checks configuration files, their scripts, libraries and composite tools, as serve
would, but without starting backends, and manifests of Kubernetes objects, without a cluster. It prints nothing if there are no problems,
else one line per problem: file, line, column, severity, message, and [code].
Warnings, about deprecated or probably unintended settings, do not change the exit code.
Without FILE it checks vmcp.yaml; - is standard input. Manifests may refer to each other; ConfigMaps and
Secrets that are in no file are assumed to be in the cluster.

With --live it also starts the backends of configurations without errors, and prints those that are not
ready, tools that are not listed as offered, and profiles with more tools than their maxTools.` + cli.ReportForm,
		Example: "  vmcp validate\n  vmcp validate --live\n  vmcp validate prod/*.yaml --output json\n  vmcp validate server.yaml tools.yaml",
	}
	output := new(string)
	author.OutputFlag(c, output)
	a.registerEnvFile(c)
	live := c.Flags().Bool("live", false, "also start the backends and check what they offer")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, names []string) error {
		if len(names) == 0 {
			names = []string{cmp.Or(os.Getenv(configVariable), defaultFile)}
		}
		var problems diag.Problems
		var objects []migration.File
		unreadable := false
		for _, name := range names {
			found, err := a.check(c.Context(), name, *live, &objects)
			if err != nil && *output != "text" {
				found = diag.Problems{{Pos: diag.Pos{File: diag.File(name), Line: 1, Column: 1}, Code: "config", Message: files.Cause(err).Error()}}
			} else if err != nil {
				a.report(err)
				unreadable = true
			}
			problems = append(problems, found...)
		}
		problems = append(problems, migration.Check(objects)...)
		errs, _ := problems.Split()
		if err := cli.Write(a.out, *output, problems, !unreadable && len(errs) == 0, a.secrets.Text); err != nil {
			return err
		}
		if unreadable || len(errs) > 0 {
			return errReported
		}
		return nil
	}
	return c
}

// checkScripts is vmcp check.
func (a *app) checkScripts() *cobra.Command {
	return author.CheckCommand(author.CheckEnv{
		Out: a.out, DefaultFile: defaultFile, Read: a.read, Input: standardInput, Secrets: a.secrets, Say: a.say, Report: a.report, Reported: errReported,
		Gather: a.gather,
	})
}

// check returns the problems of one file, with live also those of its running backends. Manifests
// are added to objects instead, because they may refer to objects in other files.
func (a *app) check(ctx context.Context, name string, live bool, objects *[]migration.File) (diag.Problems, error) {
	data, err := a.read(name)
	var problems diag.Problems
	if errors.As(err, &problems) {
		return problems, nil
	}
	if err != nil {
		return nil, err
	}
	if name == "-" {
		name = standardInput
	}
	if object.IsManifest(data) {
		*objects = append(*objects, migration.File{Name: name, Text: data})
		return nil, nil
	}
	cfg, problems := a.parse(name, data)
	if cfg != nil {
		problems = append(problems, proxy.Check(cfg)...)
	}
	if errs, _ := problems.Split(); live && cfg != nil && len(errs) == 0 {
		found, err := a.checkLive(ctx, cfg)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems.Sorted(), nil
}

// standardInput is the file name of standard input in messages.
const standardInput = "<stdin>"

// read reads the text of a configuration file, or standard input for "-".
func (a *app) read(name string) ([]byte, error) {
	if name != "-" {
		return config.ReadFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(a.in, config.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}

// load reads a configuration file, or standard input for "-".
func (a *app) load(name string) (*config.Config, error) {
	data, err := a.read(name)
	if err != nil {
		return nil, err
	}
	if name == "-" {
		name = standardInput
	}
	cfg, problems := a.parse(name, data)
	if problems, _ = problems.Split(); len(problems) > 0 {
		return nil, problems
	}
	return cfg, nil
}

// parse reads the text of a configuration, with the variables of --env-file or of the vmcp.env beside
// it.
func (a *app) parse(name string, data []byte) (*config.Config, diag.Problems) {
	if a.envFile == "" {
		return config.Read(name, data)
	}
	return config.ReadBeside(name, data, a.envFile)
}

// eachProblem splits an error with several problems.
func eachProblem(err error) []error {
	var list diag.Problems
	if !errors.As(err, &list) {
		return []error{err}
	}
	errs := make([]error, len(list))
	for i, p := range list {
		errs[i] = p
	}
	return errs
}

// printProblems writes problems one per line, in the format of compilers, or as JSON.
func (a *app) printProblems(problems diag.Problems, asJSON bool) error {
	errs, _ := problems.Split()
	format := map[bool]string{false: "text", true: "json"}[asJSON]
	return cli.Write(a.out, format, problems, len(errs) == 0, a.secrets.Text)
}
