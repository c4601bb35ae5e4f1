// Package script compiles and runs workflows written in Starlark.
//
// A program has a function run(params), or others that runs may call in its place, see
// [Program.For]. It touches the world only through effects,
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
	"cmp"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/compile"
	"github.com/vmcp-dev/vmcp/script/internal/cover"
	"github.com/vmcp-dev/vmcp/script/source"
)

// File is the text of one script.
type File = source.File

// Options say what a program is made of besides its main file.
type Options = compile.Options

// Coverage counts which statements and branches the runs of programs reach, at no cost in steps.
// The zero value is ready; programs are compiled with it.
type Coverage = cover.Set

// Program is a compiled script with all that it loads. It does not change and may run
// many times at once.
type Program struct {
	compiled *compile.Program
	entry    string // the function that a run calls
	hash     string
}

// Compile parses and compiles a file and everything that it loads.
// The error is Errors with all the problems of the first file that has any.
func Compile(f File, o Options) (*Program, error) {
	p, err := compile.Compile(f, o)
	if err != nil {
		return nil, err
	}
	if len(o.Functions) > 0 {
		return of(p, o.Functions[0]), nil
	}
	return of(p, ""), nil
}

// of is a program whose runs call a function. With run it is identified by its source alone, as
// long as there were no others.
func of(p *compile.Program, entry string) *Program {
	if entry = cmp.Or(entry, source.Run); entry == source.Run {
		return &Program{p, entry, p.Hash}
	}
	return &Program{p, entry, source.Digest([]byte(p.Hash), []byte(entry))}
}

// For is the same program for runs that call another one of the functions that it was compiled for, see
// Options.Functions; "" is run. It shares the code and is identified by its source and that function; nil when
// there is no such function.
func (p *Program) For(function string) *Program {
	if _, ok := p.compiled.Main.Entries[cmp.Or(function, source.Run)]; !ok {
		return nil
	}
	return of(p.compiled, function)
}

// Hash identifies the source of the program, all loaded files included, and the function that a run calls.
func (p *Program) Hash() string { return p.hash }

// Function is the name of the function that a run calls; "" is run.
func (p *Program) Function() string {
	if p.entry == source.Run {
		return ""
	}
	return p.entry
}

// Entry is where the function is defined that a run calls.
func (p *Program) Entry() syntax.Position { return p.compiled.Main.Entries[p.entry] }

// Name returns the name of the main file.
func (p *Program) Name() string { return p.compiled.Main.Name }

// Sums are the SHA-256 sums of the texts of all files, in hexadecimal, by their names in positions.
func (p *Program) Sums() map[string]string { return p.compiled.Sums() }

// Sources are the texts of all files of the program, by name. Compiled again, with the main one
// and a Library of the others, they are the same program. Nobody may change the map.
func (p *Program) Sources() map[string]string { return p.compiled.Sources() }

// Files are the files of the program, the main one first.
func (p *Program) Files() []File { return p.compiled.Texts() }

// Covered is the program compiled once more, with a count of what its runs reach.
func (p *Program) Covered(c *Coverage) (*Program, error) {
	covered, err := p.compiled.Covered(c)
	if err != nil {
		return nil, err
	}
	return of(covered, p.entry), nil
}
