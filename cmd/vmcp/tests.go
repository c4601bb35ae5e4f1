package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/scripttests"
)

// testFlags are the flags of the test command.
type testFlags struct {
	config, lock, run, coverOut string
	replay, cover, watch        bool
	update                      bool
	orders                      int
	coverMin                    float64
	output                      string
}

func (a *app) test() *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "run the tests of scripted tools",
		Long: `Test runs the functions test_* in files *_test.star beside the scripts and libraries of a
configuration, or in the files and folders that are named, and the recorded cases in NAME_cases. It
starts no backend: tests declare fakes, which are held to the schemas in vmcp.lock, and time is virtual.

A test that passed runs again: stopped and resumed at every effect, and with the answers of
parallel branches in other orders. What then does something else is reported.

Every problem is one line on standard output, and the summary is the last one. The exit code is 1
when a test fails, when coverage is below --cover-min or when there are no tests.`,
		Example: "  vmcp test\n  vmcp test tools/refund_test.star --run late\n  vmcp test --cover --cover-out coverage.lcov --cover-min 90\n  vmcp test --output junit > report.xml",
	}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", defaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	flags.StringVar(&f.lock, "lock", "", "the file with the tools of the backends (default pins.file of the configuration)")
	flags.StringVar(&f.run, "run", "", "run only the tests whose names match this regular expression")
	flags.BoolVar(&f.replay, "replay", true, "run tests again, stopped and resumed at each effect")
	flags.IntVar(&f.orders, "orders", 24, "in how many orders of branches tests run again, for each testing.run; 0: none")
	flags.BoolVar(&f.cover, "cover", false, "print how much of the scripts was reached")
	flags.StringVar(&f.coverOut, "cover-out", "", "write the coverage to this file, in the format of lcov")
	flags.Float64Var(&f.coverMin, "cover-min", 0, "exit with 1 when fewer percent of statements or of branches were reached")
	flags.BoolVar(&f.watch, "watch", false, "run the tests again that a changed file reaches, until interrupted")
	flags.BoolVar(&f.update, "update", false, "rewrite recorded cases whose effects are the same and whose output changed")
	flags.StringVarP(&f.output, "output", "o", "text", "how results are written: text, json or junit")
	complete(c, "output", "text", "json", "junit")
	c.PreRunE = func(*cobra.Command, []string) error { return f.check() }
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"star", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, paths []string) error {
		if f.watch {
			return a.watchTests(c.Context(), f, paths)
		}
		return a.runTests(c.Context(), f, paths)
	}
	return c
}

func (f *testFlags) check() error {
	switch {
	case f.output != "text" && f.output != "json" && f.output != "junit":
		return usageError("--output: want text, json or junit, have " + f.output)
	case f.orders < 0 || f.orders > 1000:
		return usageError(fmt.Sprintf("--orders: want 0 to 1000, have %d", f.orders))
	case f.coverMin < 0 || f.coverMin > 100:
		return usageError(fmt.Sprintf("--cover-min: want percent, have %g", f.coverMin))
	}
	if _, err := regexp.Compile(f.run); err != nil {
		return usageError("--run: " + err.Error())
	}
	return nil
}

// runTests runs tests once.
func (a *app) runTests(ctx context.Context, f testFlags, paths []string) error {
	cfg, err := a.load(f.config)
	if err != nil {
		return err
	}
	a.secrets.Use(cfg.Secrets())
	p := a.progressOfTests()
	o := scripttests.Options{Config: cfg, Paths: paths, Lock: f.lock, Replay: f.replay, Orders: f.orders, Update: f.update,
		Cover: f.cover || f.coverOut != "" || f.coverMin > 0, Done: p.done, Print: func(pos, text string) { a.say("%s: %s", pos, text) }}
	if f.run != "" {
		o.Only = regexp.MustCompile(f.run)
	}
	report, err := scripttests.Run(ctx, o)
	p.stop()
	if err != nil {
		return err
	}
	if f.coverOut != "" {
		if err := writeCoverage(f.coverOut, report.Coverage); err != nil {
			return err
		}
	}
	if err := a.showTests(report, f); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	why, failed := scripttests.Failed(report, f.coverMin)
	if why != "" {
		a.say("%s", why)
	}
	if failed {
		return errReported
	}
	return nil
}

func writeCoverage(name string, c *suite.Coverage) error {
	var text strings.Builder
	if err := c.WriteLCOV(&text); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

func (a *app) showTests(r *suite.Report, f testFlags) error {
	clean := func(s string) string { return a.shown(a.secrets.Text(s)) }
	switch f.output {
	case "json":
		return a.printJSON(r)
	case "junit":
		return scripttests.WriteJUnit(a.out, r, a.secrets.Text)
	}
	return scripttests.WriteText(a.out, r, f.cover, clean)
}

// watchTests runs tests, and again whenever a file changes that they reach.
func (a *app) watchTests(ctx context.Context, f testFlags, paths []string) error {
	cfg, err := a.load(f.config)
	if err != nil {
		return err
	}
	watched := append([]string{f.config}, paths...)
	if len(paths) == 0 {
		watched = append(watched, scripttests.Folders(cfg)...)
	}
	w, err := scripttests.Watch(watched...)
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	defer func() { _ = w.Close() }()
	run := paths
	for {
		if err := a.runTests(ctx, f, run); err != nil && !errors.Is(err, errReported) {
			a.report(err)
		}
		if ctx.Err() != nil {
			return nil
		}
		reach := scripttests.ReachOf(f.config, paths)
		a.say("waiting for changes")
		for run = nil; ; {
			changed := w.Next(ctx)
			if changed == nil {
				return nil
			}
			tests, all := reach.Reached(changed)
			if all {
				run = paths
				break
			}
			if len(tests) > 0 {
				run = tests
				break
			}
		}
	}
}

// testProgress says on standard error how far the tests are, when they take longer than a second.
type testProgress struct {
	a     *app
	mu    sync.Mutex
	n     int
	last  string
	timer *time.Ticker
	ended chan struct{}
	wg    sync.WaitGroup
}

func (a *app) progressOfTests() *testProgress {
	p := &testProgress{a: a, timer: time.NewTicker(time.Second), ended: make(chan struct{})}
	p.wg.Go(p.work)
	return p
}

func (p *testProgress) done(t suite.Test) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.last = p.n+1, cmp.Or(t.Name, t.File)
}

func (p *testProgress) work() {
	for {
		select {
		case <-p.ended:
			return
		case <-p.timer.C:
			p.mu.Lock()
			p.a.say("%d tests run, the last one is %s", p.n, cmp.Or(p.last, "none"))
			p.mu.Unlock()
		}
	}
}

func (p *testProgress) stop() {
	p.timer.Stop()
	close(p.ended)
	p.wg.Wait()
}
