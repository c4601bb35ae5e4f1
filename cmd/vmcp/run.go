package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/migration"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/operate"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/setup"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/memlimit"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Exit codes.
const (
	exitDone  = 0
	exitFound = 1 // the command ran and found a problem
	exitUsage = 2 // wrong usage
)

// buildVersion is the version that is printed and sent to clients and backends.
var buildVersion = cli.Version

// app is one invocation of the command.
type app struct {
	in       io.Reader
	out, err io.Writer
	log      logFlags
	secrets  *secret.Redactor       // of the configuration that is served in this process
	envFile  string                 // the file of variables; "" is the vmcp.env beside the configuration
	replica  atomic.Pointer[string] // the id of this process in a cluster; nil if it is in none
	running  bool                   // flags and arguments are parsed: later errors are not wrong usage
}

// run runs the program and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	signal.Notify(earlyHangups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	signals, watched := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go cancelOnSignal(ctx, cancel, signals, watched)
	defer func() { cancel(); <-watched }()
	return runContext(ctx, args, stdin, stdout, stderr)
}

// cancelOnSignal cancels at the first signal. The second is not caught: it ends the
// process at once. The handler is removed before the context is cancelled.
func cancelOnSignal(ctx context.Context, cancel context.CancelFunc, signals chan os.Signal, watched chan<- struct{}) {
	defer close(watched)
	select {
	case <-signals:
	case <-ctx.Done():
	}
	signal.Stop(signals)
	cancel()
}

func runContext(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr, secrets: &secret.Redactor{}}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	a.report(err)
	if errors.Is(err, errInterrupted) {
		return exitDone
	}
	if a.running && !errors.As(err, new(usageError)) {
		return exitFound
	}
	return exitUsage
}

// earlyHangups catches SIGHUP from before serve watches its configuration, which is read
// later anyway. SIGHUP ends every other command.
var earlyHangups = make(chan os.Signal, 1)

// usageError is an error of an argument that cobra does not check.
type usageError = cli.Error

// errInterrupted is the end of a service that was interrupted before it began, which is no problem.
var errInterrupted = errors.New("stopped before anything was served")

// errReported is returned if the problem has been reported already.
var errReported = errors.New("reported already")

// report writes an error, with a prefix on each of its lines, and its hint.
func (a *app) report(err error) {
	if errors.Is(err, errReported) {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if line = strings.TrimRight(line, " \t"); line != "" {
			a.say("%s", line)
		}
	}
	var hinted *cli.Hint
	if errors.As(err, &hinted) {
		a.say("hint: %s", hinted.Hint())
	}
}

// say writes a message for people to standard error.
func (a *app) say(format string, args ...any) {
	printMessage(a.err, a.secrets.Text(fmt.Sprintf(format, args...)))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "vmcp",
		Short: "many MCP servers behind one endpoint, with scripted tools over them",
		Long: `vmcp serves many MCP servers as one endpoint, and workflows written in Starlark as
tools next to theirs. Without a configuration file, "vmcp serve" runs a demo.

Results go to standard output, everything else to standard error. The exit code is 0
on success, 1 if there is a problem, 2 for wrong usage. VMCP_CONFIG in the
environment is the default of --config.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          serve.KnownCommand,

		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if c.Name() != "serve" {
				signal.Stop(earlyHangups)
			}
			if err := defaultConfig(c); err != nil {
				return err
			}
			if err := a.checkEnvFile(); err != nil {
				return err
			}
			return a.log.check()
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	a.log.register(root)
	complete(root, "log-format", "text", "json")
	complete(root, "log-level", "debug", "info", "warn", "error")
	for _, c := range []*cobra.Command{a.serve(), a.validate(), a.checkScripts(), a.tools(), a.call(), a.migrate(), migration.Command(a.in, a.out, a.say), a.token(), a.policy(), a.lock(), a.runs(), a.fmt(), a.test(), a.repl(), a.lsp(), a.trace(), a.fake(), a.demoBackend()} {
		a.noteRunning(c)
		root.AddCommand(c)
	}
	for _, c := range slices.Concat(a.login(), a.setup(), a.operate(), serve.Commands(serve.Env{Out: a.out, JSON: a.printJSON, Output: outputFlag})) {
		a.noteRunning(c)
		root.AddCommand(c)
	}
	root.InitDefaultCompletionCmd()
	serve.StrictHelp(root)
	return root
}

// runs is the command for stored runs.
func (a *app) runs() *cobra.Command {
	return operate.RunsCommand(operate.RunsEnv{
		In: a.in, Out: a.out, Terminal: isTerminal(a.err) && isTerminal(a.in), DefaultFile: defaultFile, Tell: a.say, Found: errReported,
		Load: a.load, JSON: a.printJSON, Output: outputFlag, Cell: a.cell, Text: a.shown,
	})
}

func (a *app) login() []*cobra.Command {
	return operate.LoginCommands(operate.LoginEnv{Out: a.out, DefaultFile: defaultFile, Load: a.load, Hide: a.secrets.Use, Say: a.say})
}

func (a *app) policy() *cobra.Command {
	return operate.PolicyCommand(operate.PolicyEnv{
		Out: a.out, DefaultFile: defaultFile, Load: a.load, JSON: a.printJSON, Output: outputFlag, Say: a.say, Reported: errReported,
		Problems: func(found diag.Problems) error { return a.printProblems(found, false) },
		Offered:  a.offered,
	})
}

func (a *app) token() *cobra.Command {
	return operate.TokensCommand(operate.TokensEnv{Out: a.out, DefaultFile: defaultFile, Say: a.say, JSON: a.printJSON, Output: outputFlag})
}

func (a *app) lock() *cobra.Command {
	return author.LockCommand(author.LockEnv{
		Out: a.out, DefaultFile: defaultFile, Load: a.load, JSON: a.printJSON, Output: outputFlag, Say: a.say, Reported: errReported,
		Problems: func(found diag.Problems) error { return a.printProblems(found, false) },
		Gather:   a.gather,
	})
}

// operate are the commands that show the state of a running endpoint.
func (a *app) operate() []*cobra.Command {
	return operate.Commands(operate.Env{
		Out: a.out, DefaultFile: defaultFile, Version: buildVersion(), Tell: a.say, JSON: a.printJSON, Output: outputFlag,
		Cell: a.cell, Text: a.shown, Line: display.VisibleLine, Load: a.load, Found: errReported,
		Memory: func(total int64) (need, may int64) { return memoryNeed(total), memlimit.New().Ceiling() },
	})
}

// setup are the commands that write configurations.
func (a *app) setup() []*cobra.Command {
	return append(setup.Commands(setup.Env{
		Out: a.out, DefaultFile: defaultFile, Tell: a.say, JSON: a.printJSON, Output: outputFlag, Found: errReported,
		Offers: a.gather,
	}), a.connect())
}

// connect is the command that adds the endpoint to the configurations of clients.
func (a *app) connect() *cobra.Command {
	return setup.Command(setup.ConnectEnv{
		In: a.in, Out: a.out, Tell: a.say, JSON: a.printJSON, Output: outputFlag, Found: errReported,
		Terminal: isTerminal(a.err) && isTerminal(a.in), DefaultFile: defaultFile, Program: setup.ThisProgram(),
		Endpoint: func(url, file string) (setup.Endpoint, error) { return setup.Locate(url, file, defaultFile) },
	})
}

// noteRunning makes a command and its subcommands set running when they start: later errors are
// not wrong usage.
func (a *app) noteRunning(c *cobra.Command) {
	for _, below := range c.Commands() {
		a.noteRunning(below)
	}
	work := c.RunE
	if work == nil {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		a.running = true
		return work(c, args)
	}
}
