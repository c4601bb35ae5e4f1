package script

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/cover"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// Coverage counts which statements and branches the runs of programs reach, at no cost in steps.
// The zero value is ready; programs are compiled with it.
type Coverage = cover.Set

// Covered is the program compiled once more, with a count of what its runs reach.
func (p *Program) Covered(c *Coverage) (*Program, error) {
	load := func(from, name string) (File, error) {
		f := p.main
		if from != p.main.name {
			f = p.files[from]
		}
		return p.files[f.loads[name]].source, nil
	}
	return Compile(p.main.source, Options{Builtins: p.predeclared, Load: load, Limits: p.limits, Entries: p.entries, Cover: c})
}

// Files are the files of the program, the main one first.
func (p *Program) Files() []File {
	all := []File{p.main.source}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		all = append(all, p.files[name].source)
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

// exported are the globals of a file as load finds them.
func (p *Program) exported(globals starlark.StringDict) starlark.StringDict {
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

// Interlude lets f compute in a run in which nobody else can: between RunOptions.Idle, called with
// the number of effects that RunOptions.Around holds, and the end of the first of these. What f calls
// is paid for by the run; effects in it have to end at once.
func (r *Run) Interlude(ctx context.Context, f func(t *starlark.Thread) error) (err error) {
	t := &r.turns
	b := r.bareBranch(ctx, "interlude.")
	b.meter = r.budget.Attach(b.thread, 0)
	t.mu.Lock()
	if t.busy {
		panic("script: an interlude of a run that computes")
	}
	t.busy, t.now = true, b
	t.mu.Unlock()
	defer func() {
		b.meter.Settle()
		t.mu.Lock()
		b.meter.End()
		t.busy = false
		t.mu.Unlock()
	}()
	defer recovered(&err)
	return f(b.thread)
}
