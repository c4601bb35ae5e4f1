package vmcp

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

const (
	mostFiles = 24
	mostLines = 3550 // about 3,500: a line more is no reason to cut
	// mostFunction bounds a function; half of them have ten lines.
	mostFunction = 60
)

// larger are rooms that may be larger than others, and why they are not cut apart.
var larger = map[string]struct {
	files, lines int
	why          string
}{
	"config":        {24, 4000, "one struct, whose fields are described and checked at one place"},
	"proxy/catalog": {24, 3700, "one immutable value: who builds it and who looks at it know all of it"},
	"cmd/vmcp":      {24, 3700, "flags and wiring; what a command does is in a room below"},
	"proxy/edge":    {24, 3700, "two eras and two transports over one kind of session and one kind of stream"},
	"script/check":  {24, 3700, "one pass over a text, a file for each topic"},
}

// TestRoomsHaveASize: what a stranger has to read before a change is bounded.
func TestRoomsHaveASize(t *testing.T) {
	files, lines := map[string]int{}, map[string]int{}
	functions := 0
	eachSource(t, func(name string, src []byte) {
		folder := path.Dir(name)
		files[folder]++
		lines[folder] += bytes.Count(src, []byte("\n"))
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			functions++
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > mostFunction {
				t.Errorf("%s: %s has %d lines, want at most %d: the sections of a function are functions", set.Position(f.Pos()), f.Name.Name, n, mostFunction)
			}
		}
	})
	for folder, n := range files {
		most := struct{ files, lines int }{mostFiles, mostLines}
		if l, ok := larger[folder]; ok {
			most.files, most.lines = l.files, l.lines
		}
		if n > most.files || lines[folder] > most.lines {
			t.Errorf("%s has %d files and %d lines, want at most %d and %d: give a part of it a room of its own", folder, n, lines[folder], most.files, most.lines)
		}
	}
	if len(files) < 50 || functions < 3000 {
		t.Errorf("%d folders with %d functions were looked at: too few", len(files), functions)
	}
}

// eachSource reads the Go files that are no tests.
func eachSource(t *testing.T, f func(name string, src []byte)) {
	t.Helper()
	tree := os.DirFS(".")
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name == "test" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err == nil {
			f(name, src)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoomsAreDescribed: docs/architecture.md says of every folder with code what it is for.
func TestRoomsAreDescribed(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	eachSource(t, func(name string, _ []byte) {
		folder := path.Dir(name)
		if top, _, _ := strings.Cut(folder, "/"); top == "examples" || top == "bench" || seen[folder] {
			return
		}
		seen[folder] = true
		if !bytes.Contains(text, []byte("`"+folder+"`")) {
			t.Errorf("docs/architecture.md does not name %s", folder)
		}
	})
}
