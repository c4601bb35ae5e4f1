package check

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check/types"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Queries of editors. Lines and columns count from 1, columns in characters, as in problems; file is the name in
// problems. For a file that cannot be parsed, the answers are those of its last text that could be, from Options.Last.

// file returns the script that a line of a file belongs to, in its present or earlier text: a configuration may
// contain several.
func (p *Program) file(name string, line int) (found *checked) {
	if p == nil {
		return nil
	}
	for _, f := range slices.Concat(p.files, p.earlier) {
		if f.tree == nil || f.tree.Path != name || found != nil && f.source.Origin.Line <= found.source.Origin.Line {
			continue
		}
		if found == nil || f.source.Origin.Line <= line {
			found = f
		}
	}
	return found
}

// keep takes what was known of an earlier text of the files that cannot be parsed now.
func (p *Program) keep(last *Program) {
	p.options.Last = nil // else all earlier programs would be kept, too
	if last == nil {
		return
	}
	for _, f := range p.files {
		if f.tree != nil {
			continue
		}
		i := slices.IndexFunc(last.files, f.succeeds)
		if i >= 0 && last.files[i].tree != nil {
			p.earlier = append(p.earlier, last.files[i])
		} else if i := slices.IndexFunc(last.earlier, f.succeeds); i >= 0 {
			p.earlier = append(p.earlier, last.earlier[i])
		}
	}
}

// Alone checks one more file with the options and results of p. If p is nil it is checked with o.
func (p *Program) Alone(src Source, o Options) *Program {
	if p != nil {
		o = p.options
	}
	o.Last, o.Cache = nil, nil
	return Check([]Source{src}, o)
}

// succeeds reports whether f is the same file as old, with a newer text.
func (f *checked) succeeds(old *checked) bool {
	return f.source.Name == old.source.Name && f.source.Origin.File == old.source.Origin.File
}

// TypeAt returns the type of the smallest expression at a position, and its extent; ok is false if there is none.
func (p *Program) TypeAt(file string, line, column int) (t types.Type, from, to syntax.Position, ok bool) {
	f := p.file(file, line)
	if f == nil {
		return t, from, to, false
	}
	at := syntax.MakePosition(&file, int32(line), int32(column))
	for x, known := range f.types {
		start, end := x.Span()
		if !meter.Inside(at, start, end) || ok && !(meter.Inside(start, from, to) && meter.Inside(end, from, to)) {
			continue
		}
		t, from, to, ok = known, start, end, true
	}
	return t, from, to, ok
}

// TypeOf returns the type of an expression that is being written, such as order or order["buyer"], as it would be at a
// line: each name in it has the type of its last use above. It is Any if unknown.
func (p *Program) TypeOf(file, expression string, line int) types.Type {
	f := p.file(file, line)
	x, err := syntax.ParseExpr("", expression, 0)
	if f == nil || err != nil {
		return types.Any
	}
	return f.typeOf(x, line)
}

func (f *checked) typeOf(x syntax.Expr, line int) types.Type {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return f.typeOf(x.X, line)
	case *syntax.Ident:
		return f.lastOf(x.Name, line)
	case *syntax.IndexExpr:
		on := f.typeOf(x.X, line)
		if lit, ok := x.Y.(*syntax.Literal); ok {
			if name, ok := lit.Value.(string); ok {
				return fieldOf(on, name)
			}
		}
		return elementOf(on)
	case *syntax.DotExpr:
		return fieldOf(f.typeOf(x.X, line), x.Name.Name)
	}
	return types.Any
}

// lastOf returns the type of a name at its last use above a line.
func (f *checked) lastOf(name string, line int) types.Type {
	best, found := types.Any, syntax.Position{}
	for x, t := range f.types {
		id, ok := x.(*syntax.Ident)
		if !ok || id.Name != name || int(id.NamePos.Line) > line || t.IsAny() && found.IsValid() {
			continue
		}
		if !found.IsValid() || meter.Before(found, id.NamePos) {
			best, found = t, id.NamePos
		}
	}
	return best
}

func fieldOf(t types.Type, name string) types.Type {
	out := types.Never
	for _, a := range t.Atoms() {
		if f, ok := a.Field(name); ok {
			out = types.Join(out, f.Type)
		}
	}
	if out.IsNever() {
		return types.Any
	}
	return out
}

func elementOf(t types.Type) types.Type {
	out := types.Never
	for _, a := range t.Atoms() {
		if a.Kind == types.List || a.Kind == types.Iterable {
			out = types.Join(out, a.Elem)
		}
	}
	if out.IsNever() {
		return types.Any
	}
	return out
}

// Fields returns the fields of the dicts and structs of a type, sorted, each once: for completion after [" and a dot.
func Fields(t types.Type) (fields []types.Field) {
	for _, a := range t.Atoms() {
		if a.Kind != types.Dict && a.Kind != types.Struct {
			continue
		}
		for _, f := range a.Fields {
			if !slices.ContainsFunc(fields, func(g types.Field) bool { return g.Name == f.Name }) {
				fields = append(fields, f)
			}
		}
	}
	slices.SortFunc(fields, func(a, b types.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// Tools returns the names of the tools that scripts can call, sorted; nil when they are not known.
func (p *Program) Tools() []string { return p.shared.names }

// Tool returns what is known of a tool.
func (p *Program) Tool(name string) (Tool, bool) {
	t, ok := p.options.Tools[name]
	return t, ok
}

// Tree returns the resolved tree of the script that a line of a file belongs to, or nil. It must not be changed.
func (p *Program) Tree(file string, line int) *syntax.File {
	if f := p.file(file, line); f != nil {
		return f.tree
	}
	return nil
}

// Load returns the file that a load statement of a file names.
func (p *Program) Load(file string, line int, module string) (script.File, bool) {
	f := p.file(file, line)
	if f == nil || p.options.Load == nil {
		return script.File{}, false
	}
	found, err := p.options.Load(f.source.Name, module)
	return found, err == nil
}
