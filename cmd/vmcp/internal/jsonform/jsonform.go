// Package jsonform says in the help of commands which form their JSON has. It reads it from the types that the commands
// encode, so that neither can change without the other.
package jsonform

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Form is one form of what a command prints.
type Form struct {
	When  string // the flag that it comes with, such as --list; "" is the usual one
	Name  string // what other forms call it; "" for none
	Value any    // of the type that is encoded
	Text  string // the form itself, where there is no such type
}

// Custom is a type that encodes itself.
type Custom interface {
	// JSONForm is a value of the type that is written in its place.
	JSONForm() any
}

// legend stands above the forms of every command.
const legend = "With --output json (? marks what is left out when empty; what has no type is a text):\n"

// width is how long a line of a form is at most, where it has a place to break.
const width = 100

// Of is the end of the long help of a command that prints a value like v.
func Of(v any) string { return Help(Form{Value: v}) }

// Help is the end of the long help of a command that prints one of these forms.
func Help(forms ...Form) string {
	w := writer{names: map[reflect.Type]string{}}
	for _, f := range forms {
		if f.Name != "" {
			w.names[reflect.TypeOf(f.Value)] = f.Name
		}
	}
	var blocks []string
	for _, f := range forms {
		text := f.Text
		if f.Value != nil {
			text = w.body(reflect.TypeOf(f.Value))
		}
		switch {
		case f.Name != "":
			text = f.Name + " = " + text
		case f.When != "":
			text = "with " + f.When + ": " + text
		}
		blocks = append(blocks, text)
	}
	if w.problems {
		blocks = append(blocks, "PROBLEM = "+w.body(reflect.TypeFor[diag.Problem]()))
	}
	out := "\n\n" + legend
	for _, b := range blocks {
		out += "\n" + wrap(b)
	}
	return strings.TrimSuffix(out, "\n")
}

// wrap breaks a form behind commas, and indents it as Markdown does what stays as it is.
func wrap(text string) string {
	const indent = "    "
	var b strings.Builder
	line := indent
	for part := range strings.SplitAfterSeq(text, ",") {
		if len(line)+len(part) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent + " "
		}
		line += part
	}
	return b.String() + line + "\n"
}

// writer writes types.
type writer struct {
	names    map[reflect.Type]string
	problems bool // one was named
}

// of is a type as a part of another.
func (w *writer) of(t reflect.Type) string {
	if name := w.names[t]; name != "" {
		return name
	}
	if t == reflect.TypeFor[diag.Problem]() {
		w.problems = true
		return "PROBLEM"
	}
	return w.body(t)
}

func (w *writer) body(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "any"
	case t.Implements(reflect.TypeFor[Custom]()):
		return w.of(reflect.TypeOf(reflect.Zero(t).Interface().(Custom).JSONForm()))
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.of(t.Elem())
	case reflect.Slice, reflect.Array:
		return "[" + w.of(t.Elem()) + "]"
	case reflect.Map:
		return "{NAME:" + w.of(t.Elem()) + "}"
	case reflect.Struct:
		return "{" + strings.Join(w.members(t), ",") + "}"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Interface:
		return "any"
	}
	return "number"
}

// members are those of a struct, with those of what it embeds.
func (w *writer) members(t reflect.Type) (list []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, w.members(f.Type)...)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		text := `"` + name + `"`
		if strings.Contains(options, "omit") {
			text += "?"
		}
		if kind := w.of(f.Type); kind != "text" {
			text += ":" + kind
		}
		list = append(list, text)
	}
	return list
}
