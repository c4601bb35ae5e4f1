// Package script compiles and runs workflows written in Starlark.
//
// A program has a function run(params). It touches the world only through effects,
// and every effect goes through one door, [Run.Do]: there it is counted, recorded in
// a journal, and answered from that journal when the program is run again. Limits
// hold for everything that a script can do, in this process: see [Limits].
//
//	p, err := script.Compile(script.File{Name: "hello.star", Source: src}, script.Options{})
//	res, err := p.Run(ctx, script.RunOptions{Args: json.RawMessage(`{"name": "World"}`)})
//
// The package knows nothing of MCP; what scripts call is in package builtins.
package script

import (
	"fmt"
	"maps"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// File is the text of one script.
type File struct {
	// Name is the name in positions and, below a library, the one that load uses.
	Name   string
	Source []byte
}

// Options say what a program is made of besides its main file.
type Options struct {
	// Builtins are the names that every file sees. They are shared by all runs, so
	// they must not change.
	Builtins starlark.StringDict
	// Load returns the file that load(name) in the file from means; nil refuses load.
	Load func(from, name string) (File, error)
	// Limits hold for compiling, and for every run that sets none of its own.
	Limits Limits
}

// Program is a compiled script with all that it loads. It does not change and may run
// many times at once.
type Program struct {
	main        *file
	files       map[string]*file
	predeclared starlark.StringDict
	limits      Limits
	hash        string
}

// file is one compiled file.
type file struct {
	name  string
	tree  *syntax.File    // only while compiling
	run   syntax.Position // of the definition of run
	code  *starlark.Program
	loads map[string]string // what load calls it: its name in Program.files
	calls Calls
	hash  string
}

func (f *file) start() syntax.Position { return syntax.MakePosition(&f.name, 1, 1) }

// dialect is Starlark with everything that a script author may expect.
var dialect = &syntax.FileOptions{
	Set:             true,
	While:           true,
	TopLevelControl: true,
	GlobalReassign:  true,
	Recursion:       true,
}

// Compile parses and compiles a file and everything that it loads.
// The error is Errors with all the problems of the first file that has any.
func Compile(f File, o Options) (*Program, error) {
	p := &Program{
		files:       map[string]*file{},
		predeclared: predeclared(o.Builtins),
		limits:      o.Limits.orDefault(),
	}
	l := &loader{program: p, load: o.Load}
	main, err := l.file(f, nil)
	if err != nil {
		return nil, compileErrors(err)
	}
	p.main = main
	p.hash = l.hash()
	return p, nil
}

// Hash identifies the source of the program, all loaded files included.
func (p *Program) Hash() string { return p.hash }

// Name returns the name of the main file.
func (p *Program) Name() string { return p.main.name }

// predeclared are the names that files see, the metered universe below the builtins.
func predeclared(builtins starlark.StringDict) starlark.StringDict {
	all := starlark.StringDict{}
	maps.Copy(all, meteredUniverse())
	maps.Copy(all, builtins)
	return all
}

// parse reads one file, checks it against the limits and keeps what checks need later.
func (p *Program) parse(f File) (*file, error) {
	if limit := p.limits.Source; len(f.Source) > limit {
		return nil, sourceTooLong(f, limit)
	}
	tree, err := dialect.Parse(f.Name, f.Source, 0)
	if err != nil {
		return nil, err
	}
	if err := checkTree(tree); err != nil { // before anything else walks it
		return nil, err
	}
	return &file{
		name: f.Name, tree: tree, loads: map[string]string{}, calls: callsOf(tree), hash: digest([]byte(f.Name), f.Source),
	}, nil
}

// compile makes code of a parsed file. The tree is rewritten on the way.
func (p *Program) compile(f *file) error {
	if err := checkForms(f.tree); err != nil {
		return err
	}
	suggest := suggestions(f.tree, p.predeclared)
	if err := instrument(f.tree); err != nil {
		return err
	}
	code, err := starlark.FileProgram(f.tree, someUndefined(p.predeclared))
	if err != nil {
		return suggest(err)
	}
	f.code, f.tree = code, nil
	return nil
}

// checkEntry looks at the signature of run as far as the text shows it.
func checkEntry(f *file) error {
	def, bound := findRun(f.tree)
	f.run = f.start()
	if !bound {
		return &Error{Msg: "no function run(params): it is what a call of the tool runs, and has to be in this file", Pos: f.run}
	}
	if def == nil {
		return nil
	}
	f.run = def.Name.NamePos
	required, positional := 0, 0
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			required++
			positional++
		case *syntax.BinaryExpr:
			positional++
		case *syntax.UnaryExpr:
			if p.Op == syntax.STAR {
				positional++
			}
		}
	}
	if required > 1 || positional == 0 {
		return &Error{Msg: fmt.Sprintf("run must take one argument, as in run(params): it has %d", required), Pos: def.Name.NamePos}
	}
	return nil
}

// findRun returns the definition of run, if it is one, and whether anything binds that name.
func findRun(tree *syntax.File) (def *syntax.DefStmt, bound bool) {
	for _, s := range tree.Stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			if s.Name.Name == "run" {
				def, bound = s, true
			}
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok && id.Name == "run" {
				def, bound = nil, true
			}
		}
	}
	return def, bound
}
