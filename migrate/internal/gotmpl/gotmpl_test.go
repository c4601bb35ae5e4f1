package gotmpl_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
	"github.com/vmcp-dev/vmcp/migrate/internal/star"
	"github.com/vmcp-dev/vmcp/script"
)

// arguments are what the templates of tests see as .params.
const arguments = `{"title": "a <b>", "empty": "", "n": 3, "yes": true, "user": {"name": "Ann", "tags": ["x", "y"]}, "rows": [{"name": "r1"}, {"name": "r2"}, {"name": "r3"}]}`

// view is a context whose only entry is params.
type view struct{ fresh int }

func (v *view) Path(names []string) (star.Expr, int) { return star.Name("params").Is(star.Map), 1 }
func (v *view) Root() star.Expr {
	return star.Dict(star.Entry{Key: "params", Value: star.Name("params").Is(star.Map)})
}
func (v *view) Fresh(hint string) string {
	v.fresh++
	return fmt.Sprintf("%s_%d", hint, v.fresh)
}
func (v *view) Free(string)               {}
func (v *view) Helper(name string) string { return name }

func parsed(t *testing.T, text string) *gotmpl.Template {
	t.Helper()
	tm, err := gotmpl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// rendered is what the translation of a template to plain Starlark returns.
func rendered(t *testing.T, text string) string {
	t.Helper()
	n := &gotmpl.Native{View: &view{}, Hint: "text"}
	value := n.Text(parsed(t, text))
	source, err := star.File([]star.Stmt{star.Def("run", []string{"params"}, append(n.Defs, star.Return(value)))})
	if err != nil {
		t.Fatal(err)
	}
	const helpers = "def items(v):\n    return v or []\ndef pairs(v):\n    return list(enumerate(v)) if type(v) == \"list\" else v.items()\n"
	p, err := script.Compile(script.File{Name: "x.star", Source: []byte(helpers + source)}, script.Options{Builtins: builtins.All()})
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, source)
	}
	res, err := p.Run(t.Context(), script.RunOptions{Args: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, source)
	}
	var out string
	if err := json.Unmarshal(res.Structured, &out); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, source)
	}
	return out
}

// TestNativeRendersAsTheTemplate: the translation makes the text that the template makes.
func TestNativeRendersAsTheTemplate(t *testing.T) {
	var params map[string]any
	if err := json.Unmarshal([]byte(arguments), &params); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"plain", "{{.params.title}}", "{{.params.n}} of {{len .params.rows}}", "{{html .params.title}}|{{urlquery .params.title}}",
		"{{if .params.empty}}a{{else if .params.yes}}b{{else}}c{{end}}", "{{if and .params.yes (eq .params.title \"x\")}}a{{else}}b{{end}}",
		"{{if not .params.empty}}none{{end}}", "{{or .params.empty \"no title\"}}", "{{.params.user.name | printf \"%q: %s\" \"name\"}}",
		"{{with .params.user}}{{.name}}{{else}}nobody{{end}}", "{{with .params.empty}}{{.}}{{else}}nobody{{end}}",
		"{{range .params.rows}}{{.name}};{{else}}none{{end}}", "{{range $i, $r := .params.rows}}{{if $i}}, {{end}}{{$r.name}}{{end}}",
		"{{range .params.rows}}{{if eq .name \"r2\"}}{{continue}}{{end}}{{.name}}{{end}}", "{{range .params.rows}}{{if eq .name \"r2\"}}{{break}}{{end}}{{.name}}{{end}}",
		"{{$x := \"a\"}}{{if .params.yes}}{{$x = \"b\"}}{{end}}{{$x}}", "{{define \"row\"}}<{{.name}}>{{end}}{{range .params.rows}}{{template \"row\" .}}{{end}}",
		"{{(index .params.rows 1).name}}{{index .params.user.tags 0}}{{slice .params.title 0 1}}", "a {{- /* c */ -}} b",
	} {
		var want strings.Builder
		if err := template.Must(template.New("").Parse(text)).Execute(&want, map[string]any{"params": params}); err != nil {
			t.Fatal(err)
		}
		if got := rendered(t, text); got != want.String() {
			t.Errorf("%s renders %q, want %q", text, got, want.String())
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"{{.a": "template: expand:1: unclosed action", "{{nothing .a}}": `template: expand:1: function "nothing" not defined`} {
		if _, err := gotmpl.Parse(text); err == nil || err.Error() != want {
			t.Errorf("Parse(%s) = %v, want %s", text, err, want)
		}
	}
	if text, ok := parsed(t, "a {{/* c */}}b").Plain(); !ok || text != "a b" {
		t.Errorf("Plain of a text = %q, %v", text, ok)
	}
	if _, ok := parsed(t, "a {{.b}}").Plain(); ok {
		t.Error("a template with an action is plain")
	}
	if got := parsed(t, "{{json .params.a}}").IsEncoded(); !got {
		t.Error("JSON of a value is not told")
	}
	if got := parsed(t, "{{json .params.a}}!").IsEncoded(); got {
		t.Error("JSON and more is taken for JSON")
	}
}

// TestFields: the fields of the root, not those of what with and range move the dot to.
func TestFields(t *testing.T) {
	got := parsed(t, "{{.a.b}}{{with .c}}{{.d}}{{else}}{{.e}}{{end}}{{range .f}}{{.g}}{{end}}{{if .h}}{{.i}}{{end}}{{$x := .j}}{{$x.k}}").Fields()
	want := [][]string{{"a", "b"}, {"c"}, {"e"}, {"f"}, {"h"}, {"i"}, {"j"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Fields = %v, want %v", got, want)
	}
}
