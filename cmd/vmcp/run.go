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

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/convert"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/info"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/operate"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/pinning"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/policies"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/release"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/runs"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/setup"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/tokens"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/memlimit"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/visible"
)

// Exit codes.
const (
	exitDone  = 0
	exitFound = 1 // it ran and there is a problem
	exitUsage = 2 // it was called wrongly
)

// buildVersion is what version prints, and clients and backends are told.
var buildVersion = release.Version

// app is one invocation of the command.
type app struct {
	in       io.Reader
	out, err io.Writer
	log      logFlags
	secrets  *secret.Redactor       // of the configuration that runs in this process
	envFile  string                 // with the variables of configurations; "" is the vmcp.env beside them
	replica  atomic.Pointer[string] // the id of this process in a cluster; nil: it is in none
	running  bool                   // past flags and arguments: what goes wrong now is not wrong usage
}

// run is the whole program but for the process around it.
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
// process at once, and that has to hold before anybody sees that the context has ended.
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
	if a.running && !errors.As(err, new(usageError)) {
		return exitFound
	}
	return exitUsage
}

// earlyHangups takes the hangups that come before serve follows its configuration, which is
// read after them anyway. They end every other command.
var earlyHangups = make(chan os.Signal, 1)

// usageError is an argument that only a running command finds wrong.
type usageError = usage.Error

// errReported is a problem that has been reported already.
var errReported = errors.New("reported already")

// report writes an error, one prefixed line per line of it, and its hint.
func (a *app) report(err error) {
	if errors.Is(err, errReported) {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if line = strings.TrimRight(line, " \t"); line != "" {
			a.say("%s", line)
		}
	}
	var hinted *usage.Hint
	if errors.As(err, &hinted) {
		a.say("hint: %s", hinted.Hint())
	}
}

// say writes a message for a person, away from the results.
func (a *app) say(format string, args ...any) {
	tell(a.err, a.secrets.Text(fmt.Sprintf(format, args...)))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "vmcp",
		Short: "many MCP servers behind one endpoint, with scripted tools over them",
		Long: `vmcp serves many MCP servers as one endpoint, and workflows written in Starlark as
tools next to theirs. Without a configuration file, "vmcp serve" runs a demo.

Results go to standard output, everything else to standard error. The exit code is 0
when all is well, 1 when there is a problem, 2 when vmcp was called wrongly. VMCP_CONFIG in the
environment is the default of --config.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,

		SuggestionsMinimumDistance: 2,

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
	for _, c := range []*cobra.Command{a.serve(), a.validate(), a.checkScripts(), a.tools(), a.call(), a.migrate(), convert.Command(a.in, a.out, a.say), a.token(), a.login(), a.logout(), a.policy(), a.lock(), a.runs(), a.fmt(), a.test(), a.repl(), a.lsp(), a.trace(), a.fake(), a.demoBackend()} {
		a.noteRunning(c)
		root.AddCommand(c)
	}
	for _, c := range slices.Concat(a.setup(), a.operate(), info.Commands(info.Env{Out: a.out, JSON: a.printJSON, Output: outputFlag})) {
		a.noteRunning(c)
		root.AddCommand(c)
	}
	root.InitDefaultCompletionCmd()
	return root
}

// runs is the command of those who look after kept runs.
func (a *app) runs() *cobra.Command {
	return runs.Command(runs.Env{
		Out: a.out, DefaultFile: defaultFile, Load: a.load, JSON: a.printJSON, Output: outputFlag, Cell: a.cell, Text: a.shown,
	})
}

func (a *app) policy() *cobra.Command {
	return policies.Command(policies.Env{
		Out: a.out, DefaultFile: defaultFile, Load: a.load, JSON: a.printJSON, Output: outputFlag, Say: a.say, Reported: errReported,
		Problems: func(found diag.Problems) error { return a.printProblems(found, false) },
		Offered:  a.offered,
	})
}

func (a *app) token() *cobra.Command {
	return tokens.Command(tokens.Env{Out: a.out, DefaultFile: defaultFile, Say: a.say, JSON: a.printJSON, Output: outputFlag})
}

func (a *app) lock() *cobra.Command {
	return pinning.Command(pinning.Env{
		Out: a.out, DefaultFile: defaultFile, Load: a.load, JSON: a.printJSON, Output: outputFlag, Say: a.say, Reported: errReported,
		Problems: func(found diag.Problems) error { return a.printProblems(found, false) },
		Gather:   a.gather,
	})
}

// operate are the commands that say how a running endpoint is.
func (a *app) operate() []*cobra.Command {
	return operate.Commands(operate.Env{
		Out: a.out, DefaultFile: defaultFile, Version: buildVersion(), Tell: a.say, JSON: a.printJSON, Output: outputFlag,
		Cell: a.cell, Text: a.shown, Line: visible.Line, Load: a.load, Found: errReported,
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

// noteRunning makes a command and those below it note that they run: whatever goes wrong
// from then on is no wrong use.
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

// knownCommand refuses what is left when no subcommand has that name.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return usage.WithHint(err, fmt.Sprintf("did you mean %q?", near[0]))
	}
	return usage.WithHint(err, `"vmcp --help" lists the commands`)
}
