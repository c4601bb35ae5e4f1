package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/editor"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// The commands of those who write scripts.

func (a *app) fmt() *cobra.Command {
	var checkOnly bool
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "format scripts, and those inside of configurations",
		Long: `Fmt formats scripts in the standard layout: .star files, all of them below
folders, and in .yaml files the scripts of scriptedTools after "script: |", while every
other byte of the YAML is kept. Without PATH it formats vmcp.yaml and all scripts that it names;
- formats a script from standard input to standard output.

Only the layout changes: spaces, existing line breaks, the order of load statements, which are moved
to the top and joined per file, and '…', which becomes "…". Long lines are not wrapped, and comments
keep their places. Fmt checks that the meaning is unchanged. Line ends become
LF in .star files. A file with syntax errors is reported and not changed; the others are formatted.

With --check nothing is written: it prints what would change as a unified diff. The exit code is 1
when anything would, or when a file cannot be formatted.` + author.FormatForm,
		Example: "  vmcp fmt\n  vmcp fmt tools prod.yaml\n  vmcp fmt --check",
	}
	output := outputFlag(c)
	c.Flags().BoolVar(&checkOnly, "check", false, "write nothing, print the differences, and exit with 1 if there are any")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"star", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, paths []string) error {
		err := author.FormatterRun(c.Context(), paths, author.FormatOptions{
			Check: checkOnly, JSON: *output == "json", Config: defaultFile, In: a.in, Out: a.out,
			Shown: a.shown, Tell: func(m string) { a.say("%s", m) }, Report: a.report, Problems: a.printProblems, Print: a.printJSON,
		})
		var usage author.UsageError
		switch {
		case errors.As(err, &usage):
			return usageError(usage)
		case errors.Is(err, author.ErrReported):
			return errReported
		}
		return err
	}
	return c
}

// replFlags are the flags of the repl command.
type replFlags struct {
	config, tool, lock string
	yes                bool
}

func (a *app) repl() *cobra.Command {
	var f replFlags
	c := &cobra.Command{
		Use:   "repl",
		Short: "run Starlark as it is typed, with the tools of a configuration",
		Long: `Repl runs statements and shows the values of expressions, in the dialect, with the builtins and
within the limits of scripted tools. call_tool calls the tools of ./vmcp.yaml, whose backends are
started for the session; calls of tools that may overwrite or destroy something must be confirmed. With
--lock nothing is started and nothing is called: the tools are those of a lock file, and return
examples of their schemas. Without a vmcp.yaml there are no tools.

With --tool NAME the names of a scripted tool's file are defined, and run({...}) runs it as a call would.
:save test_NAME writes these runs as tests, with the results as fakes. :help lists the commands.
_ is the last value. Tab completes names, tools, arguments and fields. Ctrl-C cancels the current
statement, Ctrl-D ends the session. Input that is not a terminal is executed line by line; the exit
code is then 1 if a statement failed.`,
		Example: "  vmcp repl --tool refund\n  vmcp repl --lock vmcp.lock\n  echo '2 + 3' | vmcp repl",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&f.config, "config", defaultFile, "the configuration file")
	c.Flags().StringVar(&f.tool, "tool", "", "the scripted tool to load")
	c.Flags().StringVar(&f.lock, "lock", "", "a lock file to use in place of the backends: its tools return examples")
	c.Flags().BoolVar(&f.yes, "yes", false, "call tools that may overwrite or destroy something without asking")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flags exist
	_ = c.MarkFlagFilename("lock", "lock")
	_ = c.RegisterFlagCompletionFunc("tool", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return editor.ToolNames(f.config), cobra.ShellCompDirectiveNoFileComp
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.runRepl(c.Context(), f, c.Flags().Changed("config"))
	}
	return c
}

func (a *app) runRepl(ctx context.Context, f replFlags, named bool) error {
	o := editor.REPLOptions{Yes: f.yes, Fakes: f.lock != "", Lines: a.in, Out: a.out, Shown: a.shown, Tell: func(m string) { a.say("%s", m) }}
	if isTerminal(a.in) && isTerminal(a.out) {
		o.In = a.in.(*os.File)
	}
	o.Asker = &client.Asker{Context: ctx, Screen: a.err, Tell: o.Tell}
	done := func() {}
	if named || cli.Exists(f.config) || f.lock != "" || f.tool != "" {
		var err error
		if done, err = a.replTools(ctx, f, &o); err != nil {
			return err
		}
	} else {
		a.say("there is no %s here, so there are no tools", f.config)
	}
	defer done()
	if o.In != nil {
		a.say("Starlark with the builtins of scripted tools; :help lists the commands, Ctrl-D ends")
	}
	err := editor.RunREPL(ctx, o)
	if errors.Is(err, editor.ErrFailed) {
		return errReported
	}
	return err
}

// replTools reads the configuration of a session and starts what answers its calls.
func (a *app) replTools(ctx context.Context, f replFlags, o *editor.REPLOptions) (done func(), err error) {
	cfg, err := a.load(f.config)
	if err != nil {
		return nil, err
	}
	a.secrets.Use(cfg.Secrets())
	scripts, problems := catalog.Compile(cfg, catalog.Known{})
	o.Limits, o.Load = cfg.Limits.Or(script.DefaultLimits()), scripts.Load
	if f.tool != "" {
		if o.Tool, o.File = scripts.Tool(f.tool); o.Tool == nil || o.File.Source == nil {
			if err := problems.Err(); err != nil {
				return nil, err
			}
			return nil, usageError(fmt.Sprintf("--tool: no scripted tool is named %q%s", f.tool, display.Hint(f.tool, scripts.Names())))
		}
		o.TestFile = editor.TestFile(f.config, f.tool, o.File)
	}
	stop := func() {}
	if f.lock != "" {
		locked, err := lock.Read(f.lock)
		if err != nil {
			return nil, usageError(err.Error())
		}
		if stop, err = editor.Fake(cfg, locked); err != nil {
			return nil, err
		}
	}
	editor.ShowAll(cfg)
	e, err := a.openLoaded(ctx, cfg, nil, client.Options{Asker: o.Asker, Notify: a.printNotification})
	if err != nil {
		stop()
		return nil, err
	}
	if status, err := e.Status(ctx); err == nil {
		a.reportStates(status)
		o.Origins = editor.Origins(status)
	}
	o.Tools = e
	return func() { e.Close(); stop() }, nil
}

func (a *app) lsp() *cobra.Command {
	var configFile, lockFile string
	c := &cobra.Command{
		Use:   "lsp",
		Short: "serve editors: a language server for scripts: problems, completion and more",
		Long: `Lsp is a language server on standard input and output, started by editors. It supports .star files
and scripts in configurations: problems as in vmcp check, while the text is edited; completion of
builtins, tools, arguments and fields of results; hover; definition, through load statements;
formatting; fixes; renaming of local names.

Tools are those of the lock file of the nearest vmcp.yaml above a file: "vmcp lock" writes it. No
backend is started. See docs/editors.md for the setup of editors.`,
		Example: "  vmcp lsp\n  vmcp lsp --config prod/vmcp.yaml",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&configFile, "config", "", "the configuration of all files (default the nearest vmcp.yaml above each)")
	c.Flags().StringVar(&lockFile, "lock", "", "the lock file (default pins.file of the configuration)")
	c.Flags().Bool("stdio", true, "use standard input and output, as is always done; editors pass it")
	_ = c.Flags().MarkHidden("stdio") // the flags exist
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	_ = c.MarkFlagFilename("lock", "lock")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o := editor.LSPOptions{Config: configFile, Lock: lockFile, Version: buildVersion(), Log: func(m string) { a.say("%s", m) }}
		if configFile != "" && !cli.Exists(configFile) {
			return usageError("there is no " + configFile)
		}
		if isTerminal(a.in) {
			a.say("editors start this command: see docs/editors.md")
		}
		return editor.RunLSP(c.Context(), a.in, a.out, o)
	}
	return c
}
