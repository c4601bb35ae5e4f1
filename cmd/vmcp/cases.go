package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// The commands for recorded calls of scripted tools, and recording by vmcp call.

func (a *app) trace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace CASE",
		Short: "show a recorded call of a scripted tool: a tree, a page or a file for tracing tools",
		Long: `Trace shows the steps of a scripted tool, from a case that "vmcp call --record" or the configuration's
recording: has written. As text it is a tree of steps with their times. With --output html it is one
page: a lane for every branch, a bar for every step, and the arguments and result of a step after
a click or Enter. The page makes no requests. As JSON it is the trace format of Chrome, which Perfetto can open.` + author.TraceForm,
		Example: "  vmcp trace recordings/20261122T100000.000Z-refund-1f2e3d4c.json\n  vmcp trace late.json -o html > late.html",
		Args:    cobra.ExactArgs(1),
	}
	output := outputOf(c, "text", "json", "html")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(_ *cobra.Command, args []string) error {
		one, err := readCase(args[0])
		if err != nil {
			return err
		}
		if *output == "text" {
			for _, line := range author.Lines(one) {
				if _, err := fmt.Fprintln(a.out, a.cell(line)); err != nil {
					return fmt.Errorf("write results: %w", err)
				}
			}
			return nil
		}
		data, err := pictureOf(one, "."+*output)
		if err != nil {
			return err
		}
		if _, err := a.out.Write(data); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
		return nil
	}
	return c
}

// readCase reads a case named on the command line: a missing file is a usage error.
func readCase(path string) (*cases.Case, error) {
	c, err := cases.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError("there is no " + path)
	}
	return c, err
}

// pictureOf is a case as a page or for tracing tools, by the extension of a file name.
func pictureOf(c *cases.Case, ending string) ([]byte, error) {
	if ending == ".html" {
		return author.Page(c)
	}
	return author.Chrome(c)
}

func (a *app) fake() *cobra.Command {
	var lockFile, configFile, backend string
	c := &cobra.Command{
		Use:   "fake FILE...",
		Short: "serve recorded calls as an MCP server on standard input and output",
		Long: `Fake is an MCP server whose tools are those that were called in recorded cases, and the recorded
scripted tools themselves: a call returns the recorded result of the same call. Several recorded calls
with the same arguments return their results in turn. A call that was not recorded is an error of the
tool that names the most similar one.

The definitions of the tools are those in vmcp.lock. With --backend the server replaces
one backend: it has the tools of that backend with their names there.`,
		Example: "  vmcp fake tools/refund_cases/*.json\n  vmcp fake --backend shop recordings/*.json",
		Args:    cobra.MinimumNArgs(1),
	}
	c.Flags().StringVar(&lockFile, "lock", "", "the definitions of the tools (default pins.file of the configuration, else vmcp.lock if it exists)")
	c.Flags().StringVar(&configFile, "config", "", "the configuration with the tool names that clients see (default vmcp.yaml if it exists)")
	c.Flags().StringVar(&backend, "backend", "", "serve only the tools of this backend, under its own names")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt)
	c.RunE = func(c *cobra.Command, names []string) error {
		o, err := a.fakeOptions(configFile, lockFile)
		if err != nil {
			return err
		}
		if err := author.CheckBackend(o.Lock, backend); err != nil {
			return usageError(err.Error())
		}
		o.Backend = backend
		return a.runFake(c.Context(), names, o)
	}
	return c
}

// fakeOptions reads the configuration and the lock, named or not.
func (a *app) fakeOptions(configFile, lockFile string) (o author.FakeOptions, err error) {
	o.Version = buildVersion()
	named := configFile != ""
	if !named {
		configFile = defaultFile
	}
	if _, statErr := os.Stat(configFile); named || statErr == nil {
		if o.Config, err = a.load(configFile); err != nil {
			return o, err
		}
	}
	path, wanted := lockFile, lockFile != ""
	if !wanted {
		path = lock.DefaultFile
		if o.Config != nil {
			path = o.Config.Pins.Path
		}
	}
	o.Lock, err = lock.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !wanted:
		return o, nil
	case errors.Is(err, fs.ErrNotExist):
		return o, usageError("there is no " + path)
	case err != nil:
		return o, usageError(err.Error())
	}
	return o, nil
}

func (a *app) runFake(ctx context.Context, names []string, o author.FakeOptions) error {
	var all []*cases.Case
	for _, name := range names {
		c, err := readCase(name)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	s, err := author.New(all, o)
	if err != nil {
		return err
	}
	return s.Run(ctx, a.in, a.out)
}

// keeping is what vmcp call writes about the call of a scripted tool.
type keeping struct {
	file    string // --record
	full    bool   // --record-full
	picture string // --trace=FILE

	c   *cases.Case
	err error
}

// treeOnScreen is the value of --trace alone.
const treeOnScreen = "tree"

func (k *keeping) register(c *cobra.Command, traced *string) {
	c.Flags().StringVar(traced, "trace", "", "show on standard error what a scripted tool did, with times; --trace=FILE.html writes a page, --trace=FILE.json a file for tracing tools")
	c.Flags().Lookup("trace").NoOptDefVal = treeOnScreen
	c.Flags().StringVar(&k.file, "record", "", "record the call of a scripted tool as a case, with its secrets redacted; needs a configuration (default ./"+defaultFile+")")
	c.Flags().BoolVar(&k.full, "record-full", false, "leave secrets in what --record and --trace=FILE write")
}

// check looks at the flags, and sets the configuration that recording needs.
func (k *keeping) check(t *target, traced string) error {
	if traced != "" && traced != treeOnScreen {
		if ending := filepath.Ext(traced); !slices.Contains([]string{".html", ".json"}, ending) {
			return usageError("--trace: want FILE.html or FILE.json, have " + traced)
		}
		k.picture = traced
	}
	if k.file == "" || t.config != "" {
		return nil
	}
	if t.url != "" {
		return usageError("--record: want a configuration, not --url: only what runs here can be recorded")
	}
	if _, err := os.Stat(defaultFile); err != nil {
		return usageError("--record: want a configuration: name one with --config, there is no ./" + defaultFile)
	}
	t.config = defaultFile
	return nil
}

// wanted reports whether the call is to be recorded.
func (k *keeping) wanted() bool { return k != nil && (k.file != "" || k.picture != "") }

// take receives the recorded case.
func (k *keeping) take(c *cases.Case, err error) { k.c, k.err = c, err }

// prepare configures recording for this call in place of the server's recordings.
func (k *keeping) prepare(cfg *config.Config) (recorded func(*cases.Case, error), full bool) {
	cfg.Recording.Dir = ""
	if !k.wanted() {
		return nil, false
	}
	return k.take, k.full
}

// write writes the files of --record and --trace.
func (k *keeping) write(name string, r *client.Result) error {
	if !k.wanted() {
		return nil
	}
	if t := client.TraceOf(resultOf(r)); k.c == nil && k.err == nil && k.file == "" && t != nil { // of a server elsewhere
		k.c = author.FromTrace(t, nil)
	}
	switch {
	case k.err != nil:
		return fmt.Errorf("%s was not recorded: %w", name, k.err)
	case k.c == nil:
		return fmt.Errorf("%s was not recorded: it is not a scripted tool, or its recording would be too large", name)
	}
	if k.file != "" {
		err := os.MkdirAll(filepath.Dir(k.file), 0o755) // the first case of a script makes its folder
		if err == nil {
			err = cases.Write(k.file, k.c)
		}
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	if k.picture == "" {
		return nil
	}
	data, err := pictureOf(k.c, strings.ToLower(filepath.Ext(k.picture)))
	if err == nil {
		err = files.WritePrivate(k.picture, data)
	}
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	return nil
}

func resultOf(r *client.Result) []byte {
	if r == nil {
		return nil
	}
	return r.Raw
}
