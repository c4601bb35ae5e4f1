package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package compiles scripts: each file and all that it loads is parsed, inspected, instrumented for the meter,
// and compiled.

// Options are what a program is compiled with, besides its main file.
type Options struct {
	// Builtins are the predeclared names of every file. All runs share them, so they must not change.
	Builtins starlark.StringDict
	// Load returns the file for load(name) in the file from; nil refuses load.
	Load func(from, name string) (File, error)
	// Inspect is called with the tree of every file before it is compiled, and may refuse it. It must not change the
	// tree. May be nil.
	Inspect func(*syntax.File) error
	// Limits bound compiling, and every run that sets none.
	Limits limits.Run
	// Functions are the entry functions in the main file, which take one argument; "" is run, and nil run alone.
	Functions []string
	// Entries allows a main file without entry functions: a run names the function that it calls. Such a file may load
	// names that begin with an underscore; errors about those show them after a space.
	Entries bool
	// Cover counts what runs reach; nil: nothing is counted.
	Cover *meter.Set
}

// compiledProgram is a compiled script with all files that it loads. It is immutable, and any number of runs of it may execute
// at once.
type compiledProgram struct {
	Main   *unit
	Files  map[string]*unit    // loaded files, by name
	Names  starlark.StringDict // predeclared in every file
	Limits limits.Run          // of runs that set none
	Frames meter.Frames        // of all files
	Hash   string              // of the source of all files
	Cover  *meter.Set          // nil: nothing is counted

	once    sync.Once
	texts   map[string]string // see Sources
	entries bool              // Options.Entries
}

// unit is one compiled file.
type unit struct {
	Name   string
	Source File
	Code   *starlark.Program
	Loads  map[string]string // key in Program.Files, by the argument of load
	// Entries are the positions of the entry functions, by name; of the main file only.
	Entries map[string]syntax.Position

	tree *syntax.File // only while compiling
	hash string
}

// compileSource parses and compiles a file and everything that it loads. The error is a source.Errors with all problems of
// the first file that has any.
func compileSource(f File, o Options) (*compiledProgram, error) {
	p := &compiledProgram{
		Files:   map[string]*unit{},
		Frames:  meter.Frames{},
		Names:   names(o.Builtins),
		Limits:  o.Limits.Or(limits.Defaults()),
		Cover:   o.Cover,
		entries: o.Entries,
	}
	l := &loader{program: p, load: o.Load, inspect: o.Inspect, entries: o.Entries, functions: o.functions()}
	main, err := l.file(f, nil)
	if err != nil {
		return nil, located(err)
	}
	p.Main = main
	p.Hash = l.hash()
	return p, nil
}

// functions returns the names of the entry functions, each once.
func (o *Options) functions() (names []string) {
	for _, name := range o.Functions {
		names = append(names, cmp.Or(name, SourceRun))
	}
	slices.Sort(names)
	if names = slices.Compact(names); names == nil {
		names = []string{SourceRun}
	}
	return names
}

// Sums returns the SHA-256 sums of the texts of all files, in hexadecimal, by the names used in positions.
func (p *compiledProgram) Sums() map[string]string {
	sums := map[string]string{}
	for _, f := range append(slices.Collect(maps.Values(p.Files)), p.Main) {
		sum := sha256.Sum256(f.Source.Source)
		sums[f.Source.Shown()] = hex.EncodeToString(sum[:])
	}
	return sums
}

// Sources returns the texts of all files of the program, by name. Compiling the main one with a Library of the others
// gives a program with the same hash. The map must not be changed.
func (p *compiledProgram) Sources() map[string]string {
	p.once.Do(func() {
		p.texts = map[string]string{p.Main.Name: string(p.Main.Source.Source)}
		for name, f := range p.Files {
			p.texts[name] = string(f.Source.Source)
		}
	})
	return p.texts
}

// Covered compiles the program once more; runs of the result count in c what they reach.
func (p *compiledProgram) Covered(c *meter.Set) (*compiledProgram, error) {
	load := func(from, name string) (File, error) {
		f := p.Main
		if from != p.Main.Name {
			f = p.Files[from]
		}
		return p.Files[f.Loads[name]].Source, nil
	}
	return compileSource(p.Main.Source, Options{Builtins: p.Names, Load: load, Limits: p.Limits, Entries: p.entries, Cover: c,
		Functions: slices.Sorted(maps.Keys(p.Main.Entries))})
}

// Texts returns the files of the program, the main one first.
func (p *compiledProgram) Texts() []File {
	all := []File{p.Main.Source}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		all = append(all, p.Files[name].Source)
	}
	return all
}

// loadPrivate makes load statements accept names that begin with an underscore, for files of tests. The language does
// not export them, so Exported adds them under names that begin with a space.
func loadPrivate(stmts []syntax.Stmt) {
	for _, s := range meter.Loads(stmts) {
		for i, id := range s.From {
			if strings.HasPrefix(id.Name, "_") { // it may be the same node as in To
				s.From[i] = &syntax.Ident{NamePos: id.NamePos, Name: " " + id.Name}
			}
		}
	}
}

// Exported returns the globals of a file under the names that load statements use.
func (p *compiledProgram) Exported(globals starlark.StringDict) starlark.StringDict {
	if !p.entries {
		return globals
	}
	all := maps.Clone(globals)
	for name, v := range globals {
		if strings.HasPrefix(name, "_") {
			all[" "+name] = v
		}
	}
	return all
}

// bundle is the source of a program, with all files that it loads.
type bundle struct {
	Main   File                         `json:"main"`
	Files  map[string]File              `json:"files"`
	Loads  map[string]map[string]string `json:"loads"` // Unit.Loads, by file
	Limits limits.Run                   `json:"limits"`
	Hash   string                       `json:"hash"`
	Entry  string                       `json:"entry,omitempty"` // the entry function; "" is run
}

// Bundle returns the source from which another process compiles the same program, with an entry function; "" is run.
func (p *compiledProgram) Bundle(entry string) *bundle {
	b := &bundle{Entry: entry, Main: p.Main.Source, Files: map[string]File{}, Loads: map[string]map[string]string{p.Main.Name: p.Main.Loads}, Limits: p.Limits, Hash: p.Hash}
	for name, f := range p.Files {
		b.Files[name], b.Loads[name] = f.Source, f.Loads
	}
	return b
}

// Compile compiles the program.
func (b *bundle) Compile(builtins starlark.StringDict) (*compiledProgram, error) {
	p, err := compileSource(b.Main, Options{Builtins: builtins, Limits: b.Limits, Functions: []string{b.Entry}, Load: func(from, name string) (File, error) {
		f, ok := b.Files[b.Loads[from][name]]
		if !ok {
			return File{}, errors.New("not part of the program")
		}
		return f, nil
	}})
	if err == nil && p.Hash != b.Hash {
		err = errors.New("the compiled program has another hash")
	}
	return p, err
}

// compile compiles a parsed file. The tree is rewritten.
func (l *loader) compile(f *unit) error {
	if l.inspect != nil {
		if err := l.inspect(f.tree); err != nil {
			return err
		}
	}
	suggest := meter.Suggestions(f.tree, l.program.Names)
	large, err := meter.Instrument(f.tree, l.program.Cover)
	if err != nil {
		return err
	}
	maps.Copy(l.program.Frames, large)
	code, err := starlark.FileProgram(f.tree, meter.SomeUndefined(l.program.Names))
	if err != nil {
		return suggest(err)
	}
	f.Code, f.tree = code, nil
	return nil
}
