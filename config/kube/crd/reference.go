package crd

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Reference generates the reference of the fields of all kinds, in Markdown.
func Reference(describe Describe) []byte {
	var b bytes.Buffer
	b.WriteString("# Reference of the objects of Kubernetes\n\n" +
		"The kinds of group `vmcp.dev/v1alpha1`. This page is generated from the structs that [deploy/crds](../../deploy/crds)\n" +
		"are made of. What a field of `spec.config` holds that is not told here is as in [the file](config.md).\n")
	for _, r := range resources {
		fmt.Fprintf(&b, "\n## %s\n\n%s `kubectl get %s` lists them.\n\n| Field | Type | |\n|---|---|---|\n", r.kind.Name, r.about, r.kind.ShortName)
		p := page{describe: describe, b: &b, said: map[reflect.Type]bool{}}
		p.rules = append(p.rules, named[r.kind].cel...)
		p.structure("spec", r.spec)
		p.end()
	}
	b.WriteString("\n## Status\n\nEvery kind has one.\n\n| Field | Type | |\n|---|---|---|\n")
	p := page{describe: describe, b: &b, said: map[reflect.Type]bool{}}
	p.structure("status", reflect.TypeFor[object.Status]())
	return b.Bytes()
}

// page writes the tables of one kind.
type page struct {
	describe Describe
	b        *bytes.Buffer
	said     map[reflect.Type]bool
	rules    []rule
}

// structure writes the fields of the struct at path. A struct that a configuration file has in the same form is one row.
func (p *page) structure(path string, t reflect.Type) {
	p.rules = append(p.rules, structures[t].cel...)
	p.said[t] = true
	for _, f := range document.ObjectFields(t) {
		in, sf := t, t.FieldByIndex(f.Index)
		for _, i := range f.Index[:len(f.Index)-1] {
			in = in.Field(i).Type
		}
		text := p.describe(in, sf.Name)
		if f.Default != "" {
			text += " Default: " + f.Default + "."
		}
		if own, ok := fields[field{in, f.Name}].with["description"].(string); ok {
			text = own
		}
		if f.Required {
			text += " Required."
		}
		at := path + "." + f.Name
		inner, suffix := structOf(sf.Type)
		fmt.Fprintf(p.b, "| `%s` | %s | %s |\n", at, p.word(sf.Type, f), strings.ReplaceAll(text, "|", `\|`))
		p.rules = append(p.rules, fields[field{in, f.Name}].cel...)
		if inner != nil && (!p.said[inner] || reference(inner)) && p.differs(inner, map[reflect.Type]bool{}) {
			p.structure(at+suffix, inner)
		}
	}
}

// end writes the rules beyond types.
func (p *page) end() {
	var said []string
	for _, r := range p.rules {
		if !slices.Contains(said, r.message) {
			said = append(said, r.message)
		}
	}
	if len(said) == 0 {
		return
	}
	p.b.WriteString("\nThe API server refuses objects, beyond the types of their fields, with:\n\n")
	for _, message := range said {
		fmt.Fprintf(p.b, "- %s\n", message)
	}
}

// differs reports whether the fields of a struct are documented here: configuration files do not have it, or have other
// fields in it.
func (p *page) differs(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t.PkgPath() != reflect.TypeFor[config.Config]().PkgPath() && t.PkgPath() != reflect.TypeFor[limits.Run]().PkgPath() {
		return true
	}
	switch {
	case seen[t] || t == reflect.TypeFor[config.CompositeTool]():
		return false
	case reference(t):
		return true
	}
	seen[t] = true
	inFile := document.Fields(t)
	inObject := document.ObjectFields(t)
	if len(inFile) != len(inObject) {
		return true
	}
	return slices.ContainsFunc(inObject, func(f document.Field) bool {
		inner, _ := structOf(t.FieldByIndex(f.Index).Type)
		return inner != nil && p.differs(inner, seen)
	})
}

// reference reports whether a struct is a reference to another object.
func reference(t reflect.Type) bool {
	return slices.Contains([]reflect.Type{reflect.TypeFor[config.KeyRef](), reflect.TypeFor[config.NameRef](), reflect.TypeFor[config.TextSource]()}, t)
}

// structOf returns the struct of this module in a type, and the suffix of its path, such as []; nil if there is none.
func structOf(t reflect.Type) (inner reflect.Type, suffix string) {
	switch t.Kind() {
	case reflect.Pointer:
		return structOf(t.Elem())
	case reflect.Slice:
		inner, _ = structOf(t.Elem())
		return inner, "[]"
	case reflect.Map:
		inner, _ = structOf(t.Elem())
		return inner, ".NAME"
	case reflect.Struct:
		if t != reflect.TypeFor[config.Raw]() && t != reflect.TypeFor[anything]() && t != reflect.TypeFor[config.CompositeTool]() {
			return t, ""
		}
	}
	return nil, ""
}

// word is the name of a type in the tables.
func (p *page) word(t reflect.Type, f document.Field) string {
	if f.Enum != nil {
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	}
	switch t {
	case reflect.TypeFor[config.Raw](), reflect.TypeFor[config.CompositeTool]():
		return "JSON object"
	case reflect.TypeFor[anything]():
		return "JSON"
	case reflect.TypeFor[limits.Duration]():
		return "duration"
	case reflect.TypeFor[limits.Bytes]():
		return "size"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return p.word(t.Elem(), f)
	case reflect.Slice:
		return "list of " + p.word(t.Elem(), f)
	case reflect.Map:
		return "name → " + p.word(t.Elem(), f)
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Struct:
		return "mapping"
	}
	return "number"
}
