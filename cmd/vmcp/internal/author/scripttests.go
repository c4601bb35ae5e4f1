package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/builtins/suite"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package is the command vmcp test: it finds the tests of a configuration, runs them
// against the definitions in the lock, without a backend, and prints the results.

// TestOptions say which tests run, and how.
type TestOptions struct {
	Config *config.Config
	// Paths are files and folders; none: all tests of the configuration.
	Paths []string
	// Lock is the lock file; "": that of the configuration, if it exists.
	Lock   string
	Only   *regexp.Regexp
	Replay bool
	Orders int
	Cover  bool
	// Update rewrites recorded cases whose effects are the same and whose output differs.
	Update bool
	Print  func(pos, text string)
	Done   func(suite.Test)
}

// RunTests runs the tests. The error is a usage.Error for a path that does not exist.
func RunTests(ctx context.Context, o TestOptions) (*suite.Report, error) {
	r := &runner{TestOptions: o}
	if err := r.read(); err != nil {
		return nil, err
	}
	found, err := find(o.Config, o.Paths)
	if err != nil {
		return nil, err
	}
	s := &suite.Suite{Options: suite.Options{Tools: r, Locked: r.locked, Load: r.load, Limits: o.Config.Limits.Or(script.DefaultLimits()),
		Only: o.Only, Replay: o.Replay, Orders: o.Orders, Cover: r.cover, Print: o.Print, Done: o.Done}}
	report := s.Run(ctx, found.tests)
	r.broken(report)
	r.runCases(ctx, found.cases, report)
	return report, ctx.Err()
}

// runner is one run of tests.
type runner struct {
	TestOptions
	scripts  *catalog.Set
	problems diag.Problems
	tools    map[string]*suite.Tool
	names    []string
	made     map[string]*catalog.ScriptedTool
	inputs   map[string]json.RawMessage // of locked tools, by the name for clients and by backend.tool
	locked   bool
	cover    *script.Coverage
}

// read compiles the scripts and reads the lock.
func (r *runner) read() error {
	locked, err := r.readLock()
	if err != nil {
		return err
	}
	r.scripts, r.problems = catalog.Compile(r.Config, catalog.Known{})
	r.inputs = map[string]json.RawMessage{}
	r.tools, r.made = map[string]*suite.Tool{}, map[string]*catalog.ScriptedTool{}
	if r.Cover {
		r.cover = &script.Coverage{}
	}
	for _, t := range r.scripts.Tools() {
		program := t.Program
		if r.cover != nil && !t.Composite {
			if program, err = program.Covered(r.cover); err != nil {
				return err
			}
		}
		r.made[t.Name] = t
		r.add(t.Name, &suite.Tool{Name: t.Name, Input: inputOf(t), Script: &testedTool{t, program}, Limits: t.Limits})
	}
	if locked == nil {
		return nil
	}
	var tools []catalog.LockedTool
	tools, r.locked = catalog.LockedTools(r.Config, locked)
	for _, t := range tools {
		one := &suite.Tool{Name: t.Name, Input: t.Arguments, Output: t.Returns, Repeat: t.Repeat}
		if r.tools[t.Name] != nil { // another tool has the name for clients
			one.Name = t.Origin
		} else {
			r.add(t.Name, one)
		}
		r.tools[t.Origin] = one
		r.inputs[t.Name], r.inputs[t.Origin] = t.Input, t.Input
	}
	return nil
}

// inputOf is the input schema of a scripted tool.
func inputOf(t *catalog.ScriptedTool) *schema.Schema {
	s, err := schema.CompileForeign(jsonscan.Get(t.Definition, "inputSchema"))
	if err != nil {
		return nil // the tool was refused, too
	}
	return s
}

func (r *runner) add(name string, t *suite.Tool) {
	r.tools[name] = t
	r.names = append(r.names, name)
}

// readLock reads the lock; nil when the configuration's does not exist.
func (r *runner) readLock() (*lock.File, error) {
	name := r.Lock
	if name == "" {
		name = r.Config.Pins.Path
	}
	f, err := lock.Read(name)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist) && r.Lock == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Error("there is no " + name)
	}
	return nil, cli.Error(err.Error())
}

// Find returns a tool by a name that scripts use.
func (r *runner) Find(name string) *suite.Tool { return r.tools[name] }

// Names returns the names for clients.
func (r *runner) Names() []string { return r.names }

// load reads a file that a file of tests loads: beside it, else in the libraries.
func (r *runner) load(from, name string) (script.File, error) {
	if files.IsTest(from) {
		f, err := script.Dirs(filepath.Dir(from))(from, name)
		if err == nil {
			return f, nil
		}
	}
	return r.scripts.Load(from, name)
}

// testedTool is a scripted tool, with a program that counts coverage.
type testedTool struct {
	*catalog.ScriptedTool
	program *script.Program
}

// Code returns that program.
func (t *testedTool) Code() *script.Program { return t.program }

// broken adds a failed test for each file with scripts that do not compile.
func (r *runner) broken(report *suite.Report) {
	byFile := map[string]*suite.Test{}
	var order []*suite.Test
	for _, p := range r.problems {
		t := byFile[p.File]
		if t == nil {
			t = &suite.Test{File: p.File, Line: p.Line, Status: suite.Failed}
			byFile[p.File] = t
			order = append(order, t)
		}
		t.Problems = append(t.Problems, suite.Problem{Code: p.Code, File: p.File, Line: p.Line, Column: p.Column, Message: p.Message})
	}
	for _, t := range order {
		report.Add(*t)
	}
}

// runCases replays recorded cases as tests.
func (r *runner) runCases(ctx context.Context, paths []string, report *suite.Report) {
	for _, path := range paths {
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		name := cases.Result{File: path}.Case()
		if r.Only != nil && !r.Only.MatchString(name) {
			continue
		}
		result := cases.File(ctx, path, r.replayed)
		t := suite.Test{File: diag.File(path), Name: name, Line: 1, Status: suite.Passed}
		if r.Update && result.Updated != nil {
			if err := cases.Write(path, result.Updated); err == nil {
				result.Problems = nil
			} else {
				result.Problems = diag.Problems{{Pos: diag.Pos{File: diag.File(path), Line: 1, Column: 1}, Code: cases.ReplayCode, Message: err.Error()}}
			}
		}
		for _, p := range result.Problems {
			t.Status = suite.Failed
			message := p.Message
			if p.Hint != "" {
				message += "; " + p.Hint
			}
			t.Problems = append(t.Problems, suite.Problem{Code: p.Code, File: p.File, Line: p.Line, Column: p.Column, Message: message})
		}
		t.DurationMs = float64(time.Since(began).Microseconds()) / 1000
		report.Add(t)
		if r.Done != nil {
			r.Done(t)
		}
	}
}

// replayed is a tool in the form that replay needs; nil: there is none.
func (r *runner) replayed(name string) *cases.Tool {
	t := r.made[name]
	if t == nil {
		return nil
	}
	return &cases.Tool{Name: t.Name, Program: t.Program, Limits: t.Limits, Arguments: t.Arguments, CheckOutput: t.CheckOutput, Schema: r.schema}
}

// schema is the input schema of a locked tool.
func (r *runner) schema(name string) (json.RawMessage, bool) {
	raw, ok := r.inputs[name]
	return raw, ok
}

// failedReport reports whether the exit code is 1, and why, if it is not for a failed test.
func failedReport(r *suite.Report, min float64) (why string, failed bool) {
	if len(r.Tests) == 0 {
		return "there are no tests: want functions test_* in files *_test.star, beside the scripts or named", true
	}
	if r.Coverage != nil && min > 0 {
		statements, branches := r.Coverage.Total()
		if s, b := statements.Percent(), branches.Percent(); s < min || b < min {
			return fmt.Sprintf("coverage is too low: %.1f %% of statements and %.1f %% of branches, want %g %%", s, b, min), true
		}
	}
	return "", !r.OK
}
