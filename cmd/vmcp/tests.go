package main

import (
	"regexp"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
)

func (a *app) test() *cobra.Command {
	f := &author.Flags{}
	var orders int
	var watch bool
	c := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "run the tests of scripted tools",
		Long: `Test runs the functions test_* in files *_test.star beside the scripts and libraries of a
configuration, or in the given files and folders, and the recorded cases in NAME_cases. It
starts no backend: tests declare fakes, which are validated with the schemas in vmcp.lock, and time is virtual.

A test that passed is rerun: stopped and resumed at every effect, and with the results of
parallel branches in other orders. Reruns with a different outcome are reported.

Every problem is one line on standard output, and the summary is the last one. The exit code is 1
when a test fails, when coverage is below --cover-min or when there are no tests.` + author.TestForm,
		Example: "  vmcp test\n  vmcp test tools/refund_test.star --run late\n  vmcp test --cover --cover-out coverage.lcov --cover-min 90\n  vmcp test --output junit > report.xml",
	}
	flags := c.Flags()
	flags.StringVar(&f.Config, "config", defaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	flags.StringVar(&f.Lock, "lock", "", "the file with the tools of the backends (default pins.file of the configuration)")
	flags.StringVar(&f.Only, "run", "", "run only the tests whose names match this regular expression")
	flags.BoolVar(&f.Replay, "replay", true, "run tests again, stopped and resumed at each effect")
	flags.IntVar(&orders, "orders", 24, "how many orders of branches are tried in the reruns, for each testing.run; 0: none")
	flags.BoolVar(&f.Cover, "cover", false, "print how much of the scripts was reached")
	flags.StringVar(&f.CoverOut, "cover-out", "", "write the coverage to this file, in the format of lcov")
	flags.Float64Var(&f.CoverMin, "cover-min", 0, "exit with 1 when fewer percent of statements or of branches were reached")
	flags.BoolVar(&watch, "watch", false, "rerun the tests that a changed file affects, until interrupted")
	flags.BoolVar(&f.Update, "update", false, "rewrite recorded cases whose effects are the same and whose output changed")
	flags.StringVarP(&f.Output, "output", "o", "text", "how results are written: text, json or junit")
	complete(c, "output", "text", "json", "junit")
	c.PreRunE = func(*cobra.Command, []string) error {
		f.Orders = orders
		if _, err := regexp.Compile(f.Only); err != nil {
			return usageError("--run: " + err.Error())
		}
		return f.Check()
	}
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"star", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, paths []string) error {
		command := &author.TestCommand{Flags: *f, Paths: paths, Load: a.load, Use: a.secrets.Use, Out: a.out,
			Clean: func(s string) string { return a.shown(a.secrets.Text(s)) }, PrintJSON: a.printJSON,
			Say: a.say, Report: a.report}
		run := command.Run
		if watch {
			run = command.Watch
		}
		passed, err := run(c.Context())
		if err == nil && !passed {
			err = errReported
		}
		return err
	}
	return c
}
