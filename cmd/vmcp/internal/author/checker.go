package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// This part of the package is the command vmcp check: it checks scripts against the tools that they call.

// CheckEnv is what the command needs of the program.
type CheckEnv struct {
	Out         io.Writer
	DefaultFile string
	Read        func(name string) ([]byte, error) // reads a configuration; - is standard input
	Input       string                            // the name of standard input in problems
	Secrets     *secret.Redactor
	Say         func(format string, args ...any) // to standard error
	Report      func(error)                      // to standard error
	Reported    error                            // exit code 1, and no further message
	// Gather asks the backends for what they offer, and returns what those that answered do.
	Gather func(context.Context, *config.Config) (*lock.File, error)
}

// checkFlags are the flags of the command.
type checkFlags struct {
	config, lock, explain, output string
	live, strict, fix             bool
}

// CheckCommand returns the command.
func CheckCommand(e CheckEnv) *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check [PATH...]",
		Short: "check scripts against the tools that they call",
		Long: `Check reports the problems that validate reports, and those that depend on the tools that scripts call: names,
arguments, fields of results, types. It reads the definitions of the tools from vmcp.lock, which "vmcp lock"
writes, and starts no backend. With --live it starts the backends instead and, if there is a vmcp.lock, also
prints the changes since then and the lines that they break. Without either it checks only what depends on
the scripts alone.

With PATH only problems in these files and folders are printed. A false positive is suppressed
by a comment at the end of its line, or alone on the line above: # vmcp: ok(code) reason.

With --fix it applies the safe fixes, in script files and in scripts of the configuration: misspelled names with
a single candidate, and names that are loaded and not used. It prints the applied fixes, and then the remaining
problems.

The exit code is 1 if there is an error, with --strict also for a warning, and 2 for wrong usage.` + cli.ReportForm,
		Example: "  vmcp check\n  vmcp check --live --strict tools\n  vmcp check --explain retry-twice\n  vmcp check --fix\n  vmcp check -o sarif > vmcp.sarif",
	}
	c.Flags().StringVar(&f.config, "config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().StringVar(&f.lock, "lock", "", "the file with the backends' tools (default pins.file of the configuration)")
	c.Flags().BoolVar(&f.live, "live", false, "start the backends and read their tools")
	c.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 for warnings, too")
	c.Flags().BoolVar(&f.fix, "fix", false, "apply the fixes that are safe")
	c.Flags().StringVar(&f.explain, "explain", "", "explain a code; all lists the codes")
	OutputFlag(c, &f.output)
	complete(c, "explain", append(codes.Names(), "all")...)
	c.RunE = func(c *cobra.Command, paths []string) error {
		if f.explain != "" {
			return e.explain(f.explain)
		}
		return e.run(c.Context(), f, paths)
	}
	return c
}

// complete offers the values of a flag for completion in a shell.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// OutputFlag adds --output with the formats of problems.
func OutputFlag(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "text", "how problems are written: text, json, sarif or github")
	complete(c, "output", cli.Formats...)
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(cli.Formats, *output) {
			return cli.Error("--output: want one of " + strings.Join(cli.Formats, ", ") + ", have " + *output)
		}
		return nil
	}
}

// explain prints what a code means.
func (e CheckEnv) explain(name string) error {
	if name == "all" {
		for _, c := range codes.Table {
			if _, err := fmt.Fprintf(e.Out, "%-20s %-8s %s\n", c.Name, c.Severity(), c.Short); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
		}
		return nil
	}
	c, ok := codes.Find(name)
	if !ok {
		return cli.Error(fmt.Sprintf("--explain: there is no code %q%s", name, display.Hint(name, codes.Names())))
	}
	return c.Explain(e.Out)
}

func (e CheckEnv) run(ctx context.Context, f checkFlags, paths []string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return cli.Error(fmt.Sprintf("%s: %s", path, files.Cause(err)))
		}
	}
	if f.fix && f.config == "-" {
		return cli.Error("--fix: standard input cannot be changed")
	}
	problems, bad, err := e.problems(ctx, f, paths)
	for round := 0; err == nil && f.fix && round < mostRounds; round++ {
		var more bool
		if more, err = e.fix(f, problems); err != nil || !more {
			break
		}
		problems, bad, err = e.problems(ctx, f, paths)
	}
	if err != nil {
		return err
	}
	if err := cli.Write(e.Out, f.output, problems, !bad, e.Secrets.Text); err != nil {
		return err
	}
	if bad {
		return e.Reported
	}
	return nil
}

// mostRounds bounds how often fixes are applied and the files checked again: fixes that overlap take a round each.
const mostRounds = 10

// fix applies the safe fixes; more reports whether another round may find more.
func (e CheckEnv) fix(f checkFlags, problems diag.Problems) (more bool, err error) {
	fixed, err := applyFixes(problems)
	for _, p := range fixed {
		if f.output != "text" {
			e.Say("%s", line(p))
			continue
		}
		if _, err := fmt.Fprintln(e.Out, e.Secrets.Text(line(p))); err != nil {
			return false, fmt.Errorf("write results: %w", err)
		}
	}
	if err != nil {
		e.Report(err)
		return false, e.Reported
	}
	return len(fixed) > 0, nil
}

// problems returns the problems of the files and folders in paths; bad reports whether the exit code is 1.
func (e CheckEnv) problems(ctx context.Context, f checkFlags, paths []string) (problems diag.Problems, bad bool, err error) {
	data, err := e.Read(f.config)
	if err != nil {
		return nil, false, err
	}
	name := f.config
	if name == "-" {
		name = e.Input
	}
	cfg, problems := config.Read(name, data)
	failed := false
	if cfg != nil {
		e.Secrets.Use(cfg.Secrets())
		known, err := e.knownTools(cfg, f)
		if err != nil {
			return nil, false, err
		}
		var found diag.Problems
		if f.live {
			found, failed, err = e.checkLive(ctx, cfg, known)
		} else {
			_, found = proxy.CheckWith(cfg, catalog.Known{Lock: known})
		}
		if err != nil {
			return nil, false, err
		}
		problems = append(problems, found...)
		e.reportUnlisted(cfg, paths)
	}
	problems = checkedBelow(problems.Sorted(), paths)
	errs, warnings := problems.Split()
	strict := f.strict || cfg != nil && cfg.Check.Strict
	return problems, failed || len(errs) > 0 || strict && len(warnings) > 0, nil
}

// reportUnlisted reports the scripts among the paths that the configuration does not name: they were not checked.
func (e CheckEnv) reportUnlisted(cfg *config.Config, paths []string) {
	if cfg.Partial() {
		return
	}
	own := cfg.Scripted()
	for _, path := range paths {
		if filepath.Ext(path) != ".star" || strings.HasSuffix(path, "_test.star") {
			continue
		}
		within := func(place string) bool {
			rel, err := filepath.Rel(absolute(place), absolute(path))
			return err == nil && filepath.IsLocal(rel)
		}
		if !slices.ContainsFunc(slices.Concat(own.Files, own.Folders), within) {
			e.Say("%s is not checked: it is not a script of the configuration, nor in a folder of its scripts and libraries", diag.File(path))
		}
	}
}

// absolute returns the absolute path of a file with its symbolic links resolved.
func absolute(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// knownTools reads the lock. Without one it reports how to make one.
func (e CheckEnv) knownTools(cfg *config.Config, f checkFlags) (*lock.File, error) {
	path := cmp.Or(f.lock, cfg.Pins.Path)
	known, err := lock.Read(path)
	switch {
	case err == nil:
		return known, nil
	case errors.Is(err, fs.ErrNotExist) && f.lock == "":
		if !f.live && len(cfg.Backends) > 0 {
			e.Say("there is no %s: calls of the backends' tools are not checked; vmcp lock writes it", diag.File(path))
		}
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.WithHint(cli.Error("there is no "+path), "vmcp lock writes it")
	}
	return nil, cli.Error(err.Error())
}

// checkLive checks against what the backends offer now, and reports how that differs from the lock.
// failed reports whether a backend did not answer.
func (e CheckEnv) checkLive(ctx context.Context, cfg *config.Config, known *lock.File) (problems diag.Problems, failed bool, err error) {
	live, err := e.Gather(ctx, cfg)
	if live == nil {
		return nil, false, err
	}
	if err != nil {
		e.Report(err)
		failed = true
	}
	_, problems = proxy.CheckWith(cfg, catalog.Known{Lock: live})
	if known == nil {
		return problems, failed, nil
	}
	both := known.Only(func(n lock.Name) bool { return live.Has(n.Backend) })
	return append(problems, Problems(cfg, both, live)...), failed, nil
}

// checkedBelow returns the problems in the files and folders of paths, or all when paths is empty.
func checkedBelow(problems diag.Problems, paths []string) diag.Problems {
	if len(paths) == 0 {
		return problems
	}
	return slices.DeleteFunc(problems, func(p diag.Problem) bool {
		return !slices.ContainsFunc(paths, func(path string) bool {
			rel, err := filepath.Rel(diag.File(path), p.File)
			return err == nil && (rel == "." || filepath.IsLocal(rel))
		})
	})
}
