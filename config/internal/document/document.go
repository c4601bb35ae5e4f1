// Package document reads one YAML document into a struct, strictly: every field is known, every
// problem is reported with its place, and where each value stands is kept for those who check more.
package document

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Document is one YAML document on its way into a struct. It knows the fields by their JSON tags,
// goes on after a problem, and remembers where every value stands.
type Document struct {
	File     string
	Problems diag.Problems
	Places   map[string]diag.Pos    // of values, by path
	Origins  map[string]diag.Origin // of the texts that stand in the file as they are

	rules  Rules
	broken map[string]bool // paths with a problem: nothing more is reported about them
	lines  []string        // of the file
	top    *yaml.Node      // of a document that is not read yet
	nodes  int
	zero   bool // the field being decoded may be 0: its default is
}

// Rules are what the tags of a struct cannot say.
type Rules struct {
	// Code is that of problems.
	Code string
	// Fields lists the fields that are known of a struct; nil: Fields.
	Fields func(t reflect.Type) []Field
	// Field says why a field that a struct does not have is refused; "" where it is only unknown.
	Field func(t reflect.Type, name string) string
	// Value says why a field refuses a value that is none of its own; "" where it is only unknown.
	Value func(field, value string) string
}

// New is a document of a file, nothing of which was read.
func New(file string, rules Rules) *Document {
	return &Document{File: diag.File(file), rules: rules, Places: map[string]diag.Pos{}, Origins: map[string]diag.Origin{}, broken: map[string]bool{}}
}

// Decode reads the text of a file of at most max bytes into a struct, whose address into is; false
// when nothing of it could be read.
func (d *Document) Decode(data []byte, max int64, into any) bool {
	root := d.root(data, max)
	if root == nil {
		return false
	}
	d.value(root, "", 0, reflect.ValueOf(into).Elem())
	return true
}

// DecodePart reads JSON into a struct, whose address into is, as what stands at path.
func (d *Document) DecodePart(data []byte, path string, into any) error {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil {
		return err
	}
	d.value(doc.Content[0], path, 0, reflect.ValueOf(into).Elem())
	return nil
}

// Report notes a problem of the value at path, at its place or that of what holds it. A value that
// has a problem gets no second one.
func (d *Document) Report(path, format string, args ...any) {
	for p := path; p != ""; p = parentPath(p) {
		if d.broken[p] {
			return
		}
	}
	d.broken[path] = true
	d.Problems = append(d.Problems, diag.Problem{Pos: d.Place(path), Code: d.rules.Code, Path: path, Message: fmt.Sprintf(format, args...)})
}

// Broken reports whether the value at path has a problem.
func (d *Document) Broken(path string) bool { return d.broken[path] }

// BrokenBelow reports whether anything in the value at path has a problem.
func (d *Document) BrokenBelow(path string) bool {
	for p := range d.broken {
		if strings.HasPrefix(p, path) {
			return true
		}
	}
	return false
}

// Has reports whether the file says anything at path.
func (d *Document) Has(path string) bool { return d.Places[path] != (diag.Pos{}) }

// Place is where the value at path stands, or what holds it.
func (d *Document) Place(path string) diag.Pos { return PlaceIn(d.Places, d.File, path) }

// PlaceIn is Place of a document whose Places were kept.
func PlaceIn(places map[string]diag.Pos, file, path string) diag.Pos {
	for path != "" && places[path] == (diag.Pos{}) {
		path = parentPath(path)
	}
	p := places[path]
	return diag.Pos{File: file, Line: p.Line, Column: p.Column}
}

func parentPath(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['), 0)]
}

func (d *Document) problem(line, column int, format string, args ...any) {
	d.Problems = append(d.Problems, diag.Problem{Pos: diag.Pos{File: d.File, Line: line, Column: column}, Code: d.rules.Code, Message: fmt.Sprintf(format, args...)})
}
