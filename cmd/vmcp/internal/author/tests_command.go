package author

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
)

// Flags are the flags of the command.
type Flags struct {
	Config, Lock, Only    string
	Replay, Cover, Update bool
	Orders                int
	CoverOut              string
	CoverMin              float64 // percent
	Output                string  // text, json or junit
}

// maxOrders bounds --orders: how many orders of branches are tried for each testing.run.
const maxOrders = 1000

// Check returns what is wrong with the flags.
func (f *Flags) Check() error {
	switch {
	case f.Output != "text" && f.Output != "json" && f.Output != "junit":
		return cli.Error("--output: want text, json or junit, have " + f.Output)
	case f.Orders < 0 || f.Orders > maxOrders:
		return cli.Error(fmt.Sprintf("--orders: want 0 to %d, have %d", maxOrders, f.Orders))
	case !(f.CoverMin >= 0 && f.CoverMin <= 100):
		return cli.Error(fmt.Sprintf("--cover-min: want percent, have %g", f.CoverMin))
	}
	return nil
}

// TestCommand is one invocation of the command.
type TestCommand struct {
	Flags
	Paths []string
	// Load reads a configuration; Use hides its secrets in all output.
	Load func(name string) (*config.Config, error)
	Use  func(secrets []string)
	// Out is for results, and PrintJSON prints them as JSON. Clean makes text of others safe to print.
	Out       io.Writer
	PrintJSON func(v any) error
	Clean     func(string) string
	// Say writes a message, and Report an error, for a person.
	Say    func(format string, args ...any)
	Report func(error)
}

// Run runs the tests once, and reports whether the exit code is 0.
func (c *TestCommand) Run(ctx context.Context) (passed bool, err error) {
	return c.run(ctx, c.Paths)
}

func (c *TestCommand) run(ctx context.Context, paths []string) (passed bool, err error) {
	cfg, err := c.Load(c.Config)
	if err != nil {
		return false, err
	}
	c.Use(cfg.Secrets())
	p := c.startProgress()
	o := TestOptions{Config: cfg, Paths: paths, Lock: c.Lock, Replay: c.Replay, Orders: c.Orders, Update: c.Update,
		Cover: c.Cover || c.CoverOut != "" || c.CoverMin > 0, Done: p.done, Print: func(pos, text string) { c.Say("%s: %s", pos, text) }}
	if c.Only != "" {
		if o.Only, err = regexp.Compile(c.Only); err != nil {
			return false, cli.Error("--run: " + err.Error())
		}
	}
	report, err := RunTests(ctx, o)
	p.stop()
	if err != nil {
		return false, err
	}
	if c.CoverOut != "" {
		if err := writeLCOV(c.CoverOut, report.Coverage); err != nil {
			return false, err
		}
	}
	if err := c.show(report); err != nil {
		return false, fmt.Errorf("write results: %w", err)
	}
	why, failed := failedReport(report, c.CoverMin)
	if why != "" {
		c.Say("%s", why)
	}
	return !failed, nil
}

func writeLCOV(name string, coverage *suite.Coverage) error {
	var text strings.Builder
	if err := coverage.WriteLCOV(&text); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

func (c *TestCommand) show(r *suite.Report) error {
	switch c.Output {
	case "json":
		return c.PrintJSON(r)
	case "junit":
		return WriteJUnit(c.Out, r, c.Clean)
	}
	return WriteText(c.Out, r, c.Cover, c.Clean)
}

// Watch runs all tests, and after each change of a file the tests that it can affect, until ctx ends.
func (c *TestCommand) Watch(ctx context.Context) (passed bool, err error) {
	cfg, err := c.Load(c.Config)
	if err != nil {
		return false, err
	}
	watched := append([]string{c.Config}, append(folders(cfg), c.Paths...)...)
	w, err := watch(watched...)
	if err != nil {
		return false, fmt.Errorf("watch files: %w", err)
	}
	defer func() { _ = w.Close() }()
	for paths := c.Paths; ; {
		if _, err := c.run(ctx, paths); err != nil && ctx.Err() == nil {
			c.Report(err)
		}
		if ctx.Err() != nil {
			return true, nil
		}
		c.Say("waiting for changes")
		if paths = c.next(ctx, w); ctx.Err() != nil {
			return true, nil
		}
	}
}

// next waits for a change that can affect tests, and returns these.
func (c *TestCommand) next(ctx context.Context, w *watcher) []string {
	reach := ReachOf(c.Config, c.Paths)
	for {
		changed := w.Next(ctx)
		if changed == nil {
			return nil
		}
		tests, all := reach.Reached(changed)
		if all {
			return c.Paths
		}
		if len(tests) > 0 {
			return tests
		}
	}
}

// progress prints how many tests have run, once they take longer than a second.
type progress struct {
	c     *TestCommand
	ended chan struct{}
	wg    sync.WaitGroup

	mu   sync.Mutex
	n    int    // guarded by mu, like last
	last string // the test that ended last
}

func (c *TestCommand) startProgress() *progress {
	p := &progress{c: c, ended: make(chan struct{})}
	p.wg.Go(p.work)
	return p
}

func (p *progress) done(t suite.Test) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.last = p.n+1, cmp.Or(t.Name, t.File)
}

func (p *progress) work() {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-every.C:
			p.mu.Lock()
			n, last := p.n, cmp.Or(p.last, "none")
			p.mu.Unlock()
			p.c.Say("%d tests run, the last one is %s", n, last)
		}
	}
}

func (p *progress) stop() {
	close(p.ended)
	p.wg.Wait()
}
