package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/checker"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/manifests"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/report"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/validation"
)

// defaultFile is the configuration file of a folder.
const defaultFile = "vmcp.yaml"

func (a *app) validate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "check configuration files and the scripts in them",
		Long: `Validate checks configuration files, their scripts, libraries and composite tools, as serve
would, but without starting backends, and manifests of objects of Kubernetes, without a cluster. It says nothing when all is well, and otherwise prints every
problem in a line of its own: file, line, column, severity, what is wrong, and [the kind of problem].
Warnings, of what is deprecated or may not be meant, do not change the exit code.
Without FILE it checks vmcp.yaml; - is standard input. Manifests may refer to each other; ConfigMaps and
Secrets that are in no file are taken to be in the cluster.

With --live it starts the backends of configurations that have no errors, too, and prints which are not
ready, what of their tools is not listed as it is offered, and which profiles have more tools than their maxTools.` + report.Form,
		Example: "  vmcp validate\n  vmcp validate --live\n  vmcp validate prod/*.yaml --output json\n  vmcp validate server.yaml tools.yaml",
	}
	output := new(string)
	checker.OutputFlag(c, output)
	a.registerEnvFile(c)
	live := c.Flags().Bool("live", false, "start the backends, and check what they offer, too")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, files []string) error {
		if len(files) == 0 {
			files = []string{cmp.Or(os.Getenv(configVariable), defaultFile)}
		}
		var problems diag.Problems
		var objects []manifests.File
		unreadable := false
		for _, name := range files {
			found, err := a.check(c.Context(), name, *live, &objects)
			if err != nil && *output != "text" {
				found = diag.Problems{{Pos: diag.Pos{File: diag.File(name), Line: 1, Column: 1}, Code: "config", Message: cause(err)}}
			} else if err != nil {
				a.report(err)
				unreadable = true
			}
			problems = append(problems, found...)
		}
		problems = append(problems, manifests.Check(objects)...)
		errs, _ := problems.Split()
		if err := report.Write(a.out, *output, problems, !unreadable && len(errs) == 0, a.secrets.Text); err != nil {
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
	return checker.Command(checker.Env{
		Out: a.out, DefaultFile: defaultFile, Read: a.read, Input: standardInput, Secrets: a.secrets, Say: a.say, Report: a.report, Reported: errReported,
		Gather: a.gather,
	})
}

// check returns the problems of one file, with live those that show when it is served. What is one of manifests
// is added to objects: they refer to each other.
func (a *app) check(ctx context.Context, name string, live bool, objects *[]manifests.File) (diag.Problems, error) {
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
		*objects = append(*objects, manifests.File{Name: name, Text: data})
		return nil, nil
	}
	cfg, problems := a.parse(name, data)
	if cfg != nil {
		problems = append(problems, validation.Check(cfg)...)
	}
	if errs, _ := problems.Split(); live && cfg != nil && len(errs) == 0 {
		found, err := a.live(ctx, cfg)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems.Sorted(), nil
}

// cause is an error without the name of the file, which stands elsewhere.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// standardInput is the name of what is no file.
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

// eachProblem takes apart what holds several problems.
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

// printProblems writes problems for editors, a line each, or for machines.
func (a *app) printProblems(problems diag.Problems, asJSON bool) error {
	errs, _ := problems.Split()
	format := map[bool]string{false: "text", true: "json"}[asJSON]
	return report.Write(a.out, format, problems, len(errs) == 0, a.secrets.Text)
}
