// Package document decodes one YAML document into a struct, strictly: unknown fields are problems,
// every problem has its position, and the positions of all values are kept for further checks.
package document

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Document decodes one YAML document into a struct. Fields are named by their JSON tags. Decoding
// continues after a problem, and records the position of every value.
type Document struct {
	File     string
	Problems diag.Problems
	Places   map[string]diag.Pos    // of values, by path
	Origins  map[string]diag.Origin // of the literal block scalars, by path

	rules  Rules
	nulls  map[string]diag.Pos // of the values that are null, by path
	broken map[string]bool     // paths with a problem: nothing more is reported about them
	lines  []string            // of the file
	top    *yaml.Node          // of a document that is not decoded yet
	nodes  int
	zero   bool // the field being decoded may be 0: its default is
}

// Rules are the rules of decoding beyond the tags of a struct.
type Rules struct {
	// Code is the code of problems.
	Code string
	// Fields lists the known fields of a struct; nil: the function Fields.
	Fields func(t reflect.Type) []Field
	// Field returns why a field that a struct does not have is refused; "" if it is only unknown.
	Field func(t reflect.Type, name string) string
	// Value returns why a value that is not in the enum of a field is refused; "" if it is only unknown.
	Value func(field, value string) string
}

// New returns an empty Document for a file.
func New(file string, rules Rules) *Document {
	return &Document{File: diag.File(file), rules: rules, Places: map[string]diag.Pos{}, Origins: map[string]diag.Origin{}, nulls: map[string]diag.Pos{}, broken: map[string]bool{}}
}

// Code is the code of the problems.
func (d *Document) Code() string { return d.rules.Code }

// Decode decodes the content of a file, at most max bytes, into the struct that into points to. It
// returns false if nothing could be decoded.
func (d *Document) Decode(data []byte, max int64, into any) bool {
	root := d.root(data, max)
	if root == nil {
		return false
	}
	d.value(root, "", 0, reflect.ValueOf(into).Elem())
	return true
}

// DecodePart decodes JSON into the struct that into points to, as the value at path.
func (d *Document) DecodePart(data []byte, path string, into any) error {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil {
		return err
	}
	d.value(doc.Content[0], path, 0, reflect.ValueOf(into).Elem())
	return nil
}

// Report records a problem of the value at path, with its position or that of the nearest value that
// contains it. At most one problem is recorded per value.
func (d *Document) Report(path, format string, args ...any) {
	for p := path; p != ""; p = parentPath(p) {
		if d.broken[p] {
			return
		}
	}
	d.broken[path] = true
	d.Problems = append(d.Problems, diag.Problem{Pos: d.Place(path), Code: d.rules.Code, Path: path}.Says(fmt.Sprintf(format, args...)))
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

// Has reports whether the file has a value at path.
func (d *Document) Has(path string) bool { return d.Places[path] != (diag.Pos{}) }

// Null reports whether the file has null at path, which is decoded like an absent field.
func (d *Document) Null(path string) bool { return d.nulls[path] != (diag.Pos{}) }

// Place is the position of the value at path, or of the nearest value that contains it.
func (d *Document) Place(path string) diag.Pos {
	if d.Null(path) {
		return d.nulls[path]
	}
	return PlaceIn(d.Places, d.File, path)
}

// PlaceIn is Place for the Places of a document.
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
