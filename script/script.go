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
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/rewrite"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// File is the text of one script.
type File struct {
	// Name identifies the file; below a library it is the name that load uses.
	Name   string
	Source []byte
	// Origin is where the text stands, for positions; the zero value is a file of that Name.
	Origin diag.Origin
}

// Options say what a program is made of besides its main file.
type Options struct {
	// Builtins are the names that every file sees. They are shared by all runs, so
	// they must not change.
	Builtins starlark.StringDict
	// Load returns the file that load(name) in the file from means; nil refuses load.
	Load func(from, name string) (File, error)
	// Inspect sees the tree of every file before it is compiled, and may refuse it; nil
	// looks at none. It must not change the tree.
	Inspect func(*syntax.File) error
	// Limits hold for compiling, and for every run that sets none of its own.
	Limits Limits
	// Entries allows a main file without a function run: a run says what it calls. It may load names
	// that begin with an underscore; errors about those have a space before it.
	Entries bool
	// Cover counts what runs reach; nil: nothing does.
	Cover *Coverage
}

// Program is a compiled script with all that it loads. It does not change and may run
// many times at once.
type Program struct {
	main        *file
	files       map[string]*file
	predeclared starlark.StringDict
	limits      Limits
	hash        string
	frames      meter.Frames // of all files

	once    sync.Once
	texts   map[string]string // see Sources
	cover   *Coverage
	entries bool // Options.Entries
}

// file is one compiled file.
type file struct {
	name   string
	source File
	tree   *syntax.File    // only while compiling
	run    syntax.Position // of the definition of run
	code   *starlark.Program
	loads  map[string]string // what load calls it: its name in Program.files
	hash   string
}

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
		frames:      meter.Frames{},
		predeclared: predeclared(o.Builtins),
		limits:      o.Limits.Or(DefaultLimits()),
		cover:       o.Cover,
		entries:     o.Entries,
	}
	l := &loader{program: p, load: o.Load, inspect: o.Inspect, entries: o.Entries}
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

// Sums are the SHA-256 sums of the texts of all files, in hexadecimal, by their names in positions.
func (p *Program) Sums() map[string]string {
	sums := map[string]string{}
	for _, f := range append(slices.Collect(maps.Values(p.files)), p.main) {
		sum := sha256.Sum256(f.source.Source)
		sums[f.source.shown()] = hex.EncodeToString(sum[:])
	}
	return sums
}

// Entry is where run is defined.
func (p *Program) Entry() syntax.Position { return p.main.run }

// Name returns the name of the main file.
func (p *Program) Name() string { return p.main.name }

// predeclared are the names that files see, the metered universe below the builtins.
func predeclared(builtins starlark.StringDict) starlark.StringDict {
	all := starlark.StringDict{}
	maps.Copy(all, meter.Universe())
	maps.Copy(all, builtins)
	return all
}

// Parse reads the tree of one file, and refuses what is longer or nested deeper than any
// pass over it can take. The error is Errors.
func Parse(f File, l Limits) (*syntax.File, error) {
	if limit := l.Or(DefaultLimits()).Source; len(f.Source) > int(limit) {
		return nil, Errors{{
			Msg: fmt.Sprintf("the file has %d bytes, the limit is %s", len(f.Source), limit),
			Pos: f.start(),
		}}
	}
	if nul := bytes.IndexByte(f.Source, 0); nul >= 0 { // the scanner would take the text to end there
		return nil, Errors{{Msg: "a NUL character: this is not the text of a script", Pos: f.position(nul)}}
	}
	tree, err := dialect.Parse(f.shown(), f.Source, 0)
	if err == nil {
		err = rewrite.Check(tree) // before anything else walks it
	}
	if err != nil {
		return nil, f.moveErrors(listed(err))
	}
	f.moveTree(tree)
	return tree, nil
}

// Resolve finds the names of a file that nothing defines. The error is Errors; it names
// what was probably meant.
func Resolve(f *syntax.File, builtins starlark.StringDict) error {
	names := predeclared(builtins)
	suggest := tree.Suggestions(f, names)
	if err := resolve.File(f, tree.SomeUndefined(names), starlark.Universe.Has); err != nil {
		errs := listed(suggest(err))
		if files.IsTest(f.Path) { // it may load them
			errs = slices.DeleteFunc(errs, func(e *Error) bool { return strings.HasPrefix(e.Msg, "load: names with leading underscores") })
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// CheckEntry refuses a file without a function run that takes one argument, as far as
// the text shows it. The error is Errors.
func CheckEntry(f *syntax.File) error {
	if _, err := entryOf(f); err != nil {
		return Errors{err}
	}
	return nil
}

// compile makes code of a parsed file. The tree is rewritten on the way.
func (l *loader) compile(f *file) error {
	if l.inspect != nil {
		if err := l.inspect(f.tree); err != nil {
			return err
		}
	}
	suggest := tree.Suggestions(f.tree, l.program.predeclared)
	large, err := rewrite.Instrument(f.tree, l.program.cover)
	if err != nil {
		return err
	}
	maps.Copy(l.program.frames, large)
	code, err := starlark.FileProgram(f.tree, tree.SomeUndefined(l.program.predeclared))
	if err != nil {
		return suggest(err)
	}
	f.code, f.tree = code, nil
	return nil
}

// entryOf looks at the signature of run as far as the text shows it, and returns where it is.
func entryOf(f *syntax.File) (syntax.Position, *Error) {
	def, bound := tree.FindRun(f)
	start := tree.Beginning(f)
	if !bound {
		return start, &Error{Msg: "no function run(params): it is what a call of the tool runs, and has to be in this file", Pos: start}
	}
	if def == nil {
		return start, nil
	}
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
		return start, &Error{Msg: fmt.Sprintf("run must take one argument, as in run(params): it has %d", required), Pos: def.Name.NamePos}
	}
	return def.Name.NamePos, nil
}
