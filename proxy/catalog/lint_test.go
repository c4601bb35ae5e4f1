package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// linted are the problems of scripts in a catalog with these tools of a backend.
func linted(s *Set, tools map[string]string) string {
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

// TestABackendsChangeChecksWhatItConcerns: of 100 scripts and a library only those are checked again that call a
// changed tool, or miss one while the names have changed.
func TestABackendsChangeChecksWhatItConcerns(t *testing.T) {
	const any = `{"type": "object"}`
	dir, tools := t.TempDir(), map[string]string{}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lib.star", "N = 1\n")
	for i := range 100 {
		name := fmt.Sprintf("s%03d", i)
		write(name+".star", fmt.Sprintf("load(\"lib.star\", \"N\")\ntool(name = %q, description = \"S.\")\ndef run(params):\n    return call_tool(\"tool%d\", {\"n\": N})\n", name, i%10))
		tools[fmt.Sprintf("tool%d", i%10)] = any
	}
	cfg := &config.Config{Scripts: []string{dir}}
	cfg.Complete()
	s, problems := Compile(cfg, Known{})
	if len(problems) > 0 || len(s.Texts()) != 101 {
		t.Fatalf("%d texts: %v", len(s.Texts()), problems)
	}
	seventh := &s.Texts()[8].Source // after the library
	for _, step := range []struct {
		name   string
		change func()
		looks  int
		want   int // problems
	}{
		{"the first catalog", func() {}, 101, 0},
		{"nothing has changed", func() {}, 0, 0},
		{"a tool that nobody calls", func() { tools["other"] = any }, 0, 0},
		{"a description", func() { tools["tool1"] = any + `, "description": "x"` }, 0, 0},
		{"one tool", func() { tools["tool1"] = `{"type": "object", "properties": {"n": {"type": "string"}}}` }, 10, 10},
		{"one tool is gone", func() { delete(tools, "tool2") }, 10, 20},
		{"others are named, which may be meant", func() { tools["more"] = any }, 10, 20},
		{"it is back", func() { tools["tool2"] = any }, 0, 10},
		{"a text", func() { seventh.Source = []byte("def run(params):\n    return 1\n") }, 1, 10},
		{"a text that loads another name", func() {
			seventh.Source = []byte("load(\"lib.star\", \"M\")\n\ndef run(params):\n    return M\n")
		}, 2, 11}, // and the library, of which another name is wanted now
		{"a library", func() { write("lib.star", "N = 1\nM = 2\n") }, 100, 10},
	} {
		step.change()
		before := s.Cache().Looks()
		got := linted(s, tools)
		if n := s.Cache().Looks() - before; n != step.looks {
			t.Errorf("%s: %d files were looked at, want %d", step.name, n, step.looks)
		}
		if n := len(strings.FieldsFunc(got, func(r rune) bool { return r == '\n' })); n != step.want {
			t.Errorf("%s: %d problems, want %d:\n%s", step.name, n, step.want, got)
		}
	}
}
