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
	"unicode"
)

const (
	mostFiles = 24
	mostLines = 3700 // a line more is no reason to cut
	// mostFunction bounds a function; half of them have ten lines.
	mostFunction = 60
)

// TestRoomsHaveASize: what a stranger has to read before a change is bounded.
func TestRoomsHaveASize(t *testing.T) {
	files, lines := map[string]int{}, map[string]int{}
	eachSource(t, func(name string, src []byte) {
		folder := path.Dir(name)
		files[folder]++
		lines[folder] += bytes.Count(src, []byte("\n"))
	})
	eachFunction(t, func(set *token.FileSet, f *ast.FuncDecl) {
		if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > mostFunction {
			t.Errorf("%s: %s has %d lines, want at most %d: the sections of a function are functions", set.Position(f.Pos()), f.Name.Name, n, mostFunction)
		}
	})
	for folder, n := range files {
		if n > mostFiles || lines[folder] > mostLines {
			t.Errorf("%s has %d files and %d lines, want at most %d and %d: give a part of it a room of its own", folder, n, lines[folder], mostFiles, mostLines)
		}
	}
	if len(files) < 50 {
		t.Errorf("%d folders were looked at: too few", len(files))
	}
}

// vague are verbs that had many meanings here, with what says which one is meant.
var vague = map[string]string{
	"tell": "notify, report, log or print", "told": "sent or notified", "settle": "what comes of it: release, decide, respond",
	"look": "find, read, measure or check", "poke": "wake", "park": "suspend", "lend": "acquire", "borrow": "acquire", "dismiss": "release",
	"greet": "initialize", "hello": "initialize", "shake": "handshake",
}

// TestWords: names of functions and methods begin with a word of the table in CONTRIBUTING.md, or another that says what
// they do; not with one that can mean anything.
func TestWords(t *testing.T) {
	eachFunction(t, func(set *token.FileSet, f *ast.FuncDecl) {
		end := strings.IndexFunc(f.Name.Name[1:], unicode.IsUpper) + 1
		if end == 0 {
			end = len(f.Name.Name)
		}
		if instead := vague[strings.ToLower(f.Name.Name[:end])]; instead != "" {
			t.Errorf("%s: %s: say %s", set.Position(f.Pos()), f.Name.Name, instead)
		}
	})
}

// eachFunction reads the functions and methods of the Go files that are no tests.
func eachFunction(t *testing.T, f func(set *token.FileSet, d *ast.FuncDecl)) {
	t.Helper()
	functions := 0
	eachSource(t, func(name string, src []byte) {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				functions++
				f(set, d)
			}
		}
	})
	if functions < 3000 {
		t.Errorf("%d functions were looked at: too few", functions)
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
