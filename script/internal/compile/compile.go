// Package compile makes programs of scripts: each file parsed, looked at, made to ask the meter, and compiled, with
// all that it loads.
package compile

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
	"github.com/vmcp-dev/vmcp/script/internal/cover"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/rewrite"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
	"github.com/vmcp-dev/vmcp/script/source"
)

// Options say what a program is made of besides its main file.
type Options struct {
	// Builtins are the names that every file sees. They are shared by all runs, so
	// they must not change.
	Builtins starlark.StringDict
	// Load returns the file that load(name) in the file from means; nil refuses load.
	Load func(from, name string) (source.File, error)
	// Inspect sees the tree of every file before it is compiled, and may refuse it; nil
	// looks at none. It must not change the tree.
	Inspect func(*syntax.File) error
	// Limits hold for compiling, and for every run that sets none of its own.
	Limits limits.Run
	// Functions are those of the main file that runs may call with their arguments; "" is run, and nil run alone.
	Functions []string
	// Entries allows a main file without such functions: a run says what it calls. It may load names
	// that begin with an underscore; errors about those have a space before it.
	Entries bool
	// Cover counts what runs reach; nil: nothing does.
	Cover *cover.Set
}

// Program is a compiled script with all that it loads. It does not change and may run
// many times at once.
type Program struct {
	Main   *Unit
	Files  map[string]*Unit    // that are loaded, by name
	Names  starlark.StringDict // that every file sees
	Limits limits.Run          // of runs that set none of their own
	Frames meter.Frames        // of all files
	Hash   string              // of the source of all files
	Cover  *cover.Set          // counts what runs reach; nil: nothing does

	once    sync.Once
	texts   map[string]string // see Sources
	entries bool              // Options.Entries
}

// Unit is one compiled file.
type Unit struct {
	Name   string
	Source source.File
	Code   *starlark.Program
	Loads  map[string]string // what load calls it: its name in Program.Files
	// Entries is where the functions are defined that runs may call; of the main file.
	Entries map[string]syntax.Position

	tree *syntax.File // only while compiling
	hash string
}

// Compile parses and compiles a file and everything that it loads.
// The error is Errors with all the problems of the first file that has any.
func Compile(f source.File, o Options) (*Program, error) {
	p := &Program{
		Files:   map[string]*Unit{},
		Frames:  meter.Frames{},
		Names:   source.Names(o.Builtins),
		Limits:  o.Limits.Or(limits.Defaults()),
		Cover:   o.Cover,
		entries: o.Entries,
	}
	l := &loader{program: p, load: o.Load, inspect: o.Inspect, entries: o.Entries, functions: o.functions()}
	main, err := l.file(f, nil)
	if err != nil {
		return nil, source.Located(err)
	}
	p.Main = main
	p.Hash = l.hash()
	return p, nil
}

// functions are Functions with all their names, each once.
func (o *Options) functions() (names []string) {
	for _, name := range o.Functions {
		names = append(names, cmp.Or(name, source.Run))
	}
	slices.Sort(names)
	if names = slices.Compact(names); names == nil {
		names = []string{source.Run}
	}
	return names
}

// Sums are the SHA-256 sums of the texts of all files, in hexadecimal, by their names in positions.
func (p *Program) Sums() map[string]string {
	sums := map[string]string{}
	for _, f := range append(slices.Collect(maps.Values(p.Files)), p.Main) {
		sum := sha256.Sum256(f.Source.Source)
		sums[f.Source.Shown()] = hex.EncodeToString(sum[:])
	}
	return sums
}

// Sources are the texts of all files of the program, by name. Compiled again, with the main one
// and a Library of the others, they are the same program. Nobody may change the map.
func (p *Program) Sources() map[string]string {
	p.once.Do(func() {
		p.texts = map[string]string{p.Main.Name: string(p.Main.Source.Source)}
		for name, f := range p.Files {
			p.texts[name] = string(f.Source.Source)
		}
	})
	return p.texts
}

// Covered is the program compiled once more, with a count of what its runs reach.
func (p *Program) Covered(c *cover.Set) (*Program, error) {
	load := func(from, name string) (source.File, error) {
		f := p.Main
		if from != p.Main.Name {
			f = p.Files[from]
		}
		return p.Files[f.Loads[name]].Source, nil
	}
	return Compile(p.Main.Source, Options{Builtins: p.Names, Load: load, Limits: p.Limits, Entries: p.entries, Cover: c,
		Functions: slices.Sorted(maps.Keys(p.Main.Entries))})
}

// Texts are the files of the program, the main one first.
func (p *Program) Texts() []source.File {
	all := []source.File{p.Main.Source}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		all = append(all, p.Files[name].Source)
	}
	return all
}

// loadPrivate makes load statements take names that begin with an underscore, too: for a file of tests.
// The language does not export them, so they are exported under names of ours.
func loadPrivate(stmts []syntax.Stmt) {
	for _, s := range tree.Loads(stmts) {
		for i, id := range s.From {
			if strings.HasPrefix(id.Name, "_") { // it may be the same node as in To
				s.From[i] = &syntax.Ident{NamePos: id.NamePos, Name: " " + id.Name}
			}
		}
	}
}

// Exported are the globals of a file as load finds them.
func (p *Program) Exported(globals starlark.StringDict) starlark.StringDict {
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

// Bundle is the text of a program, with all that it loads.
type Bundle struct {
	Main   source.File                  `json:"main"`
	Files  map[string]source.File       `json:"files"`
	Loads  map[string]map[string]string `json:"loads"` // what load calls it, by file
	Limits limits.Run                   `json:"limits"`
	Hash   string                       `json:"hash"`
	Entry  string                       `json:"entry,omitempty"` // what a run calls; "" is run
}

// Bundle is what the same program is compiled from elsewhere, for runs that call one of its functions; "" is run.
func (p *Program) Bundle(entry string) *Bundle {
	b := &Bundle{Entry: entry, Main: p.Main.Source, Files: map[string]source.File{}, Loads: map[string]map[string]string{p.Main.Name: p.Main.Loads}, Limits: p.Limits, Hash: p.Hash}
	for name, f := range p.Files {
		b.Files[name], b.Loads[name] = f.Source, f.Loads
	}
	return b
}

// Compile makes the program of its texts.
func (b *Bundle) Compile(builtins starlark.StringDict) (*Program, error) {
	p, err := Compile(b.Main, Options{Builtins: builtins, Limits: b.Limits, Functions: []string{b.Entry}, Load: func(from, name string) (source.File, error) {
		f, ok := b.Files[b.Loads[from][name]]
		if !ok {
			return source.File{}, errors.New("not part of the program")
		}
		return f, nil
	}})
	if err == nil && p.Hash != b.Hash {
		err = errors.New("the program is another one")
	}
	return p, err
}

// compile makes code of a parsed file. The tree is rewritten on the way.
func (l *loader) compile(f *Unit) error {
	if l.inspect != nil {
		if err := l.inspect(f.tree); err != nil {
			return err
		}
	}
	suggest := tree.Suggestions(f.tree, l.program.Names)
	large, err := rewrite.Instrument(f.tree, l.program.Cover)
	if err != nil {
		return err
	}
	maps.Copy(l.program.Frames, large)
	code, err := starlark.FileProgram(f.tree, tree.SomeUndefined(l.program.Names))
	if err != nil {
		return suggest(err)
	}
	f.Code, f.tree = code, nil
	return nil
}
