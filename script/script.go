// Package script compiles and runs workflows written in Starlark.
//
// A program has a function run(params), or other entry functions (see [Program.For]). It has no access to the outside
// except through effects, and every effect passes one method, [Run.Do]: there it is counted against the limits,
// recorded in a journal, and answered from that journal when the run is resumed. The limits hold for everything that a
// script does inside this process: see [Limits].
//
//	p, err := script.Compile(script.File{Name: "hello.star", Source: src}, script.Options{})
//	res, err := p.Run(ctx, script.RunOptions{Args: json.RawMessage(`{"name": "World"}`)})
//
// The package does not depend on MCP; the functions that scripts can call are in package builtins.
package script

import (
	"cmp"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Coverage counts which statements and branches the runs of programs reach; the counting takes no steps. The zero
// value is ready for use; pass it to Program.Covered.
type Coverage = meter.Set

// Program is a compiled script with all files that it loads. It is immutable, and any number of runs of it may execute
// at once.
type Program struct {
	compiled *compiledProgram
	entry    string // the function that a run calls
	hash     string
}

// Compile parses and compiles a file and everything that it loads. The error is an Errors with all problems of the
// first file that has any.
func Compile(f File, o Options) (*Program, error) {
	p, err := compileSource(f, o)
	if err != nil {
		return nil, err
	}
	if len(o.Functions) > 0 {
		return of(p, o.Functions[0]), nil
	}
	return of(p, ""), nil
}

// of returns the program whose runs call entry, "" for run. With run, the hash of the program is that of its source
// alone; with any other entry function, the name is part of it.
func of(p *compiledProgram, entry string) *Program {
	if entry = cmp.Or(entry, SourceRun); entry == SourceRun {
		return &Program{p, entry, p.Hash}
	}
	return &Program{p, entry, digest([]byte(p.Hash), []byte(entry))}
}

// For returns the same program with another entry function, one of Options.Functions; "" is run. It shares the
// compiled code; its hash covers the source and that function. It returns nil when the program has no such function.
func (p *Program) For(function string) *Program {
	if _, ok := p.compiled.Main.Entries[cmp.Or(function, SourceRun)]; !ok {
		return nil
	}
	return of(p.compiled, function)
}

// Hash identifies the source of the program, with all loaded files, and the entry function.
func (p *Program) Hash() string { return p.hash }

// Function returns the name of the entry function; "" for run.
func (p *Program) Function() string {
	if p.entry == SourceRun {
		return ""
	}
	return p.entry
}

// Entry returns the position of the definition of the entry function.
func (p *Program) Entry() syntax.Position { return p.compiled.Main.Entries[p.entry] }

// Name returns the name of the main file.
func (p *Program) Name() string { return p.compiled.Main.Name }

// Sums returns the SHA-256 sums of the texts of all files, in hexadecimal, by the names used in positions.
func (p *Program) Sums() map[string]string { return p.compiled.Sums() }

// Sources returns the texts of all files of the program, by name. Compiling the main one with a Library of the others
// gives a program with the same hash. The map must not be changed.
func (p *Program) Sources() map[string]string { return p.compiled.Sources() }

// Files returns the files of the program, the main one first.
func (p *Program) Files() []File { return p.compiled.Texts() }

// Covered compiles the program once more; runs of the result count in c what they reach.
func (p *Program) Covered(c *Coverage) (*Program, error) {
	covered, err := p.compiled.Covered(c)
	if err != nil {
		return nil, err
	}
	return of(covered, p.entry), nil
}
