package cli

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// This part of the package describes in the help of commands the form of their JSON. It reads it from the types that the commands
// encode, so that the help always agrees with the output.

// JSONForm is one form of the JSON that a command prints.
type JSONForm struct {
	When  string // the flag that selects it, such as --list; "" is the usual one
	Name  string // the name by which other forms refer to it; "" for none
	Value any    // a value of the type that is encoded
	Text  string // the form itself, where there is no type
}

// custom is a type that encodes itself.
type custom interface {
	// JSONForm is a value whose type is described instead.
	JSONForm() any
}

// legend is printed above the forms of every command.
const legend = "With --output json (? marks what is left out when empty; what has no type is a string):\n"

// width is the length at which lines of a form are broken, where they can be.
const width = 100

// Of returns the end of the long help of a command that prints a value like v.
func Of(v any) string { return Help(JSONForm{Value: v}) }

// Help returns the end of the long help of a command that prints one of these forms.
func Help(forms ...JSONForm) string {
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

// wrap breaks a form after commas, and indents it as Markdown does code.
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

// writer prints types as forms.
type writer struct {
	names    map[reflect.Type]string
	problems bool // diag.Problems was among them
}

// of is the form of a type inside another one.
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
	case t.Implements(reflect.TypeFor[custom]()):
		return w.of(reflect.TypeOf(reflect.Zero(t).Interface().(custom).JSONForm()))
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
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
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Interface:
		return "any"
	}
	return "number"
}

// members are the members of a struct, with those of the structs that it embeds.
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
		if kind := w.of(f.Type); kind != "string" {
			text += ":" + kind
		}
		list = append(list, text)
	}
	return list
}
