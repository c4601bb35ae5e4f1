package migrate_test

import (
	"errors"
	"os"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// FuzzTranslate translates arbitrary text: the result is an error with a position, or a
// script that compiles and is formatted; never a panic.
func FuzzTranslate(f *testing.F) {
	for _, file := range glob(f, "testdata/cases/*/in.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "{{.params.x}}")
	}
	for _, text := range []string{
		"{{range $i, $e := .params.l}}{{if $i}}{{break}}{{else}}{{continue}}{{end}}{{end}}",
		`{{define "a"}}{{template "a" .}}{{end}}{{template "a" $}}`, "{{with $x := .}}{{$x.y.z}}{{end}}", "{{1i}}{{'a'}}{{0x1p4}}{{1e400}}",
		"{{printf \"%[3]*.[2]*[1]f\" 12.0 2 6}}{{call .x}}{{nil}}{{.x.y 1}}", "{{(index .a 1).b}}{{slice .a 1 2 3}}{{- /* c */ -}}", `{{"\x00\"""'''"}}`,
		"{{$a := 1}}{{$a = 2}}{{range $a = .params.x}}{{$a}}{{else}}{{end}}",
	} {
		f.Add([]byte("name: t\ndescription: d\nsteps: [{id: a, tool: b.c, arguments: {x: TEMPLATE}}]"), text)
	}
	f.Fuzz(func(t *testing.T, data []byte, template string) {
		holds(t, data)
		holds(t, withTemplate(template))
	})
}

// withTemplate is a workflow with the template in every field that may have one.
func withTemplate(text string) []byte {
	f := &flow{steps: []*flowStep{
		{id: "a", tool: "t.echo", args: map[string]any{"x": text, "y": []any{text}}},
		{id: "b", tool: "t.echo", condition: text, collection: text, dependsOn: []string{"a"}, args: map[string]any{"x": text}},
	}, output: map[string]flowProperty{"p": {kind: "string", value: text, fallback: "d"}}}
	return f.json()
}

func holds(t *testing.T, data []byte) {
	defs, err := migrate.Parse("fuzz.yaml", data)
	if err != nil {
		placed(t, err)
		return
	}
	for _, d := range defs {
		for _, o := range []migrate.Options{{}, {Fix: true}, {Style: migrate.Clean}} {
			s, err := migrate.Translate(d, o)
			if err != nil {
				placed(t, err)
				continue
			}
			_, err = script.Compile(script.File{Name: "fuzz.star", Source: []byte(s.Source)},
				legacy.With(script.Options{Builtins: builtins.All()}))
			if err != nil && !tooLarge(err) {
				t.Fatalf("%v\n%s\n%s", err, data, s.Source)
			}
		}
	}
}

// placed checks that an error has a position.
func placed(t *testing.T, err error) {
	var problems diag.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("an error without a place: %v", err)
	}
	for _, p := range problems {
		if p.Pos.File == "" {
			t.Fatalf("a problem without a place: %v", p)
		}
	}
}

func tooLarge(err error) bool {
	var limit *script.LimitError
	return errors.As(err, &limit)
}
