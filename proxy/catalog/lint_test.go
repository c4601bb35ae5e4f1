package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// linted is what a catalog with these tools of a backend says of scripts.
func linted(s *Scripts, tools map[string]string) string {
	b := &builder{cfg: &config.Config{}, complete: true, c: &Catalog{toolByName: map[string]*Entry{}, toolByOrigin: map[string]*Entry{}}}
	for name, schema := range tools {
		b.c.toolByName[name] = &Entry{Name: name, Definition: []byte(`{"name": "` + name + `", "inputSchema": ` + schema + `}`)}
	}
	b.lint(s)
	var lines []string
	for _, p := range b.c.Problems {
		lines = append(lines, p.Entry+" "+p.Message)
	}
	return strings.Join(lines, "\n")
}

// TestABackendsChangeChecksWhatItConcerns: of 500 scripts those are checked again that call a tool which has
// changed, or miss one while the names have changed.
func TestABackendsChangeChecksWhatItConcerns(t *testing.T) {
	const any = `{"type": "object"}`
	library := "N = 1\n"
	s := &Scripts{cache: &check.Cache{Lean: true}, load: func(from, name string) (script.File, error) {
		return script.File{Name: name, Source: []byte(library), Origin: diag.InFile(name)}, nil
	}}
	tools := map[string]string{}
	for i := range 500 {
		name := fmt.Sprintf("s%03d", i)
		text := fmt.Sprintf("load(\"lib.star\", \"N\")\n\ndef run(params):\n    return call_tool(\"tool%d\", {\"n\": N})\n", i%50)
		s.texts = append(s.texts, &scriptText{entry: name, named: []diag.Pos{{}}, source: check.Source{Tools: []check.Entry{{Tool: name}}, File: script.File{Name: name + ".star", Source: []byte(text), Origin: diag.InFile(name + ".star")}}})
		tools[fmt.Sprintf("tool%d", i%50)] = any
	}
	for _, step := range []struct {
		name   string
		change func()
		looks  int
		want   int // problems
	}{
		{"the first catalog", func() {}, 500, 0},
		{"nothing has changed", func() {}, 0, 0},
		{"a tool that nobody calls", func() { tools["other"] = any }, 0, 0},
		{"a description", func() { tools["tool1"] = any + `, "description": "x"` }, 0, 0},
		{"one tool", func() { tools["tool1"] = `{"type": "object", "properties": {"n": {"type": "string"}}}` }, 10, 10},
		{"one tool is gone", func() { delete(tools, "tool2") }, 10, 20},
		{"others are named, which may be meant", func() { tools["more"] = any }, 10, 20},
		{"it is back", func() { tools["tool2"] = any }, 0, 10},
		{"a text", func() { s.texts[7].source.Source = []byte("def run(params):\n    return 1\n") }, 1, 10},
		{"a text that loads another name", func() {
			s.texts[7].source.Source = []byte("load(\"lib.star\", \"M\")\n\ndef run(params):\n    return M\n")
		}, 1, 11},
		{"a library", func() { library = "N = 1\nM = 2\n" }, 500, 10},
	} {
		step.change()
		before := s.cache.Looks()
		got := linted(s, tools)
		if n := s.cache.Looks() - before; n != step.looks {
			t.Errorf("%s: %d files were looked at, want %d", step.name, n, step.looks)
		}
		if n := len(strings.FieldsFunc(got, func(r rune) bool { return r == '\n' })); n != step.want {
			t.Errorf("%s: %d problems, want %d:\n%s", step.name, n, step.want, got)
		}
	}
}
