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
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/rewrite"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
	"github.com/vmcp-dev/vmcp/script/source"
)

// File is the text of one script.
type File = source.File

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

// Compile parses and compiles a file and everything that it loads.
// The error is Errors with all the problems of the first file that has any.
func Compile(f File, o Options) (*Program, error) {
	p := &Program{
		files:       map[string]*file{},
		frames:      meter.Frames{},
		predeclared: source.Names(o.Builtins),
		limits:      o.Limits.Or(DefaultLimits()),
		cover:       o.Cover,
		entries:     o.Entries,
	}
	l := &loader{program: p, load: o.Load, inspect: o.Inspect, entries: o.Entries}
	main, err := l.file(f, nil)
	if err != nil {
		return nil, source.Located(err)
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
		sums[f.source.Shown()] = hex.EncodeToString(sum[:])
	}
	return sums
}

// Entry is where run is defined.
func (p *Program) Entry() syntax.Position { return p.main.run }

// Name returns the name of the main file.
func (p *Program) Name() string { return p.main.name }

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
