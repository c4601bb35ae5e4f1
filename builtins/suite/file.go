package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// testFile is a compiled file of tests.
type testFile struct {
	file    script.File
	program *script.Program
	calls   map[place]syntax.Position // where calls begin, by the position of their parenthesis
}

// place is a position without the name of its file.
type place struct{ line, column int32 }

// predeclared are the predeclared names of test files, and of what they load.
var predeclared = func() starlark.StringDict {
	names := maps.Clone(builtins.All())
	names["testing"] = module
	return names
}()

// file runs the tests of one file.
func (s *Suite) file(ctx context.Context, f script.File, r *Report) {
	began := time.Now()
	broken := func(problems []Problem) {
		t := Test{File: f.Origin.File, Status: Failed, Problems: problems, DurationMs: milliseconds(began)}
		if len(problems) > 0 {
			t.Line = problems[0].Line
		}
		r.Add(t)
		s.done(t)
	}
	tree, err := script.Parse(f, s.Limits)
	if err != nil {
		broken(compileProblems(f, err))
		return
	}
	tests, problems := testsOf(f, tree)
	tf := &testFile{file: f, calls: map[place]syntax.Position{}}
	tf.noteCalls(tree)
	tf.program, err = script.Compile(f, script.Options{Builtins: predeclared, Load: s.Load, Limits: s.Limits, Entries: true, Cover: s.Cover})
	if err != nil {
		broken(compileProblems(f, err))
		return
	}
	if len(problems) > 0 {
		broken(problems)
	}
	for _, def := range tests {
		if ctx.Err() != nil {
			return
		}
		if s.Only == nil || s.Only.MatchString(def.Name.Name) {
			t := s.test(ctx, tf, def)
			r.Add(t)
			s.done(t)
		}
	}
}

func (s *Suite) done(t Test) {
	if s.Done != nil {
		s.Done(t)
	}
}

func milliseconds(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()) / 1000
}

// testsOf returns the functions test_* without parameters, and problems for those with parameters or the same name.
func testsOf(f script.File, tree *syntax.File) (tests []*syntax.DefStmt, problems []Problem) {
	seen := map[string]bool{}
	wrong := func(def *syntax.DefStmt, message string) {
		at, _ := f.Place(def.Name.NamePos)
		problems = append(problems, problemAt(CodeFailed, at, message))
	}
	for _, s := range tree.Stmts {
		def, ok := s.(*syntax.DefStmt)
		if !ok || !strings.HasPrefix(def.Name.Name, "test_") {
			continue
		}
		switch name := def.Name.Name; {
		case len(def.Params) > 0:
			wrong(def, fmt.Sprintf("%s has parameters: tests are called without arguments", name))
		case seen[name]:
			wrong(def, fmt.Sprintf("%s is defined twice: the first definition would never run", name))
		default:
			seen[name] = true
			tests = append(tests, def)
		}
	}
	return tests, problems
}

// compileProblems returns the errors of a file that does not compile.
func compileProblems(f script.File, err error) (problems []Problem) {
	var list script.Errors
	var one *script.Error
	switch {
	case errors.As(err, &list):
	case errors.As(err, &one):
		list = script.Errors{one}
	default:
		return []Problem{problemAt("load", f.Origin.Pos, err.Error())}
	}
	for _, e := range list {
		at, _ := f.Place(e.Pos)
		if !e.Pos.IsValid() {
			at = f.Origin.Pos
		}
		code := "syntax"
		if e.Err != nil {
			code = "load"
		} else if strings.HasPrefix(e.Msg, "undefined: ") {
			code = "undefined"
		}
		problems = append(problems, problemAt(code, at, e.Msg))
	}
	return problems
}

func problemAt(code string, at diag.Pos, message string) Problem {
	return Problem{Code: code, File: at.File, Line: at.Line, Column: at.Column, Message: message}
}

// noteCalls records where calls begin: at run time they have the position of their parenthesis.
func (f *testFile) noteCalls(tree *syntax.File) {
	syntax.Walk(tree, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			f.calls[place{call.Lparen.Line, call.Lparen.Col}] = syntax.Start(call)
		}
		return true
	})
}

// place returns where the expression at a position begins, for a reader.
func (f *testFile) place(p syntax.Position) diag.Pos {
	if start, ok := f.calls[place{p.Line, p.Col}]; ok && f.file.Has(p) {
		p = start
	}
	at, _ := f.file.Place(p)
	return at
}
