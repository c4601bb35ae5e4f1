package source

import (
	"bytes"
	"reflect"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Texts that stand in other files, such as the scripts in a configuration, are parsed as
// they are, and then every position of the tree is moved to where its text stands. All
// that comes later, tracebacks included, knows only the moved ones.

// Shown is the name of the file in positions. The lines of a text that stands somewhere in
// another form are counted from its own first one.
func (f File) Shown() string {
	switch {
	case f.Origin == (diag.Origin{}):
		return f.Name
	case f.Origin.Exact:
		return f.Origin.File
	default:
		return f.Origin.Pos.String() + ": script"
	}
}

// start is the place of the first character.
func (f File) start() syntax.Position {
	name := f.Shown()
	return f.move(syntax.MakePosition(&name, 1, 1))
}

// position is that of a byte of the source.
func (f File) position(at int) syntax.Position {
	name, before := f.Shown(), f.Source[:at]
	line := bytes.Count(before, []byte("\n"))
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return f.move(syntax.MakePosition(&name, int32(line+1), int32(column+1)))
}

// moved says how far positions have to be moved.
func (f File) moved() (lines, columns int32) {
	if !f.Origin.Exact {
		return 0, 0
	}
	return int32(f.Origin.Line) - 1, int32(f.Origin.Column) - 1
}

func (f File) move(p syntax.Position) syntax.Position {
	lines, columns := f.moved()
	if p.Line > 0 { // else it is no place
		p.Line += lines
		p.Col += columns
	}
	return p
}

func (f File) moveErrors(errs Errors) Errors {
	for _, e := range errs {
		e.Pos = f.move(e.Pos)
	}
	return errs
}

var positionType = reflect.TypeFor[syntax.Position]()

// moveTree moves the positions of all nodes.
func (f File) moveTree(tree *syntax.File) {
	if lines, columns := f.moved(); lines == 0 && columns == 0 {
		return
	}
	seen := map[syntax.Node]bool{nil: true}
	syntax.Walk(tree, func(n syntax.Node) bool {
		if seen[n] {
			return false
		}
		seen[n] = true
		v := reflect.ValueOf(n).Elem()
		for i := range v.NumField() {
			if field := v.Field(i); field.Type() == positionType {
				field.Set(reflect.ValueOf(f.move(field.Interface().(syntax.Position))))
			}
		}
		return true
	})
}

// Place is where a position in a file stands for a reader. For a text that stands somewhere
// in another form it is the place of the whole text; line is then the line inside of it, else 0.
func (f File) Place(p syntax.Position) (at diag.Pos, line int) {
	if f.Origin.Line > 0 && !f.Origin.Exact {
		return f.Origin.Pos, int(p.Line)
	}
	return diag.Pos{File: p.Filename(), Line: int(p.Line), Column: int(p.Col)}, 0
}

// Has reports whether a position is one in this file.
func (f File) Has(p syntax.Position) bool {
	if p.Filename() != f.Shown() {
		return false
	}
	lines, _ := f.moved()
	return !f.Origin.Exact || p.Line > lines && int(p.Line-lines) <= bytes.Count(f.Source, []byte("\n"))+1
}

// Holds reports whether a place, as problems have it, is one in this file.
func (f File) Holds(p diag.Pos) bool {
	if f.Origin.Line > 0 && !f.Origin.Exact {
		return p == f.Origin.Pos
	}
	return f.Has(syntax.MakePosition(&p.File, int32(p.Line), int32(p.Column)))
}

// Token is where the word or sign at a position ends: behind its last character.
func (f File) Token(p syntax.Position) (end syntax.Position, ok bool) {
	if !f.Has(p) || p.Line == 0 {
		return p, false
	}
	lines, columns := f.moved()
	source := f.Source
	for range p.Line - lines - 1 {
		_, source, _ = bytes.Cut(source, []byte("\n"))
	}
	line, _, _ := bytes.Cut(source, []byte("\n"))
	word := []rune(string(line))
	word = word[min(max(int(p.Col-columns)-1, 0), len(word)):]
	n := 0
	for n < len(word) && (word[n] == '_' || unicode.IsLetter(word[n]) || unicode.IsDigit(word[n])) {
		n++
	}
	p.Col += int32(max(n, 1))
	return p, true
}
