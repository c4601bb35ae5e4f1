package script

import (
	"bytes"
	"reflect"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Texts inside other files, such as scripts in a configuration, are parsed alone; then every position of the tree is
// moved to where its text is in the other file. Everything after that, tracebacks included, has only the moved
// positions.

// Shown returns the name of the file in positions. Where the text has another form in its origin (such as a quoted
// string), lines are counted from its own first line.
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

// start returns the position of the first character.
func (f File) start() syntax.Position {
	name := f.Shown()
	return f.move(syntax.MakePosition(&name, 1, 1))
}

// position returns the position of byte at.
func (f File) position(at int) syntax.Position {
	name, before := f.Shown(), f.Source[:at]
	line := bytes.Count(before, []byte("\n"))
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return f.move(syntax.MakePosition(&name, int32(line+1), int32(column+1)))
}

// moved returns by how much positions are moved.
func (f File) moved() (lines, columns int32) {
	if !f.Origin.Exact {
		return 0, 0
	}
	return int32(f.Origin.Line) - 1, int32(f.Origin.Column) - 1
}

func (f File) move(p syntax.Position) syntax.Position {
	lines, columns := f.moved()
	if p.Line > 0 { // else it is not known
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

// Place returns where a position is for a reader. Where the text has another form in its origin, that is the position
// of the whole text, and line is the line inside of it; otherwise line is 0.
func (f File) Place(p syntax.Position) (at diag.Pos, line int) {
	if f.Origin.Line > 0 && !f.Origin.Exact {
		return f.Origin.Pos, int(p.Line)
	}
	return diag.Pos{File: p.Filename(), Line: int(p.Line), Column: int(p.Col)}, 0
}

// Has reports whether a position is in this file.
func (f File) Has(p syntax.Position) bool {
	if p.Filename() != f.Shown() {
		return false
	}
	lines, _ := f.moved()
	return !f.Origin.Exact || p.Line > lines && int(p.Line-lines) <= bytes.Count(f.Source, []byte("\n"))+1
}

// Holds reports whether a position of a problem is in this file.
func (f File) Holds(p diag.Pos) bool {
	if f.Origin.Line > 0 && !f.Origin.Exact {
		return p == f.Origin.Pos
	}
	return f.Has(syntax.MakePosition(&p.File, int32(p.Line), int32(p.Column)))
}

// Token returns the position after the last character of the token at p.
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
