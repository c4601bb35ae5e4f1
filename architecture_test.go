package vmcp

import (
	"encoding/xml"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostArchitecture bounds docs/architecture.md, in lines: what is true of one package is in its documentation.
const mostArchitecture = 250

// TestArchitectureNamesTheFolders: docs/architecture.md is short, names every folder with code of the program, and no
// file or folder that is not there.
func TestArchitectureNamesTheFolders(t *testing.T) {
	text := readPage(t, "docs/architecture.md")
	if n := strings.Count(text, "\n"); n > mostArchitecture {
		t.Errorf("docs/architecture.md has %d lines, want at most %d", n, mostArchitecture)
	}
	folders := foldersWithCode(t)
	for _, folder := range folders {
		if !outsideTheProgram(folder) && !strings.Contains(text, "`"+folder+"`") {
			t.Errorf("docs/architecture.md does not name %s", folder)
		}
	}
	if len(folders) < 50 {
		t.Errorf("%d folders have code: the test does not find them all", len(folders))
	}
	text, _, _ = strings.Cut(text, "\n## Dependencies and why\n")
	for _, span := range codeSpans(text) {
		if isPath(span) {
			mustBeThere(t, "docs/architecture.md", span)
		}
	}
}

// TestArchitectureWalks: the names of Go that docs/architecture.md has in code style are declared in a file or folder that the
// same paragraph, step or row names.
func TestArchitectureWalks(t *testing.T) {
	text := readPage(t, "docs/architecture.md")
	names := 0
	for _, title := range []string{"From a configuration to a catalog", "A call: from the client's bytes to the backend and back", "A run: it asks a person, is killed, and is resumed", "Locks", "Goroutines"} {
		names += checkNames(t, "docs/architecture.md", part(t, text, title), nil)
	}
	if names < 80 {
		t.Errorf("docs/architecture.md has %d names in its walks: the test does not read them all", names)
	}
}

// TestPicture: every folder that the picture names exists, and every room is in it.
func TestPicture(t *testing.T) {
	var rooms []string
	for _, folder := range foldersWithCode(t) {
		room, _, _ := strings.Cut(folder, "/")
		if !slices.Contains(rooms, room) && (room == "examples" || !outsideTheProgram(folder)) && room != "deploy" && room != "packaging" {
			rooms = append(rooms, room)
		}
	}
	if len(rooms) != 9 {
		t.Errorf("the rooms are %v, want nine", rooms)
	}
	names := 0
	for _, l := range labels(t, "docs/architecture.svg") {
		if l.class == "room" || l.class == "folder" {
			names++
			mustBeThere(t, "docs/architecture.svg", l.text)
		} else if strings.Contains(l.text, "/") {
			t.Errorf("docs/architecture.svg: %q has a path and not the class folder", l.text)
		}
		rooms = slices.DeleteFunc(rooms, func(room string) bool { return l.class == "room" && l.text == room })
	}
	if len(rooms) > 0 {
		t.Errorf("docs/architecture.svg does not show %v", rooms)
	}
	if names < 40 {
		t.Errorf("docs/architecture.svg names %d folders: the test does not read them all", names)
	}
}

// A label is a text in a picture.
type label struct{ class, text string }

// labels reads the text elements of an SVG.
func labels(t *testing.T, name string) (found []label) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := xml.NewDecoder(f)
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		var e struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		}
		if err := in.DecodeElement(&e, &start); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found = append(found, label{e.Class, strings.TrimSpace(e.Text)})
	}
}

// outsideTheProgram reports whether a folder is an example, a measurement or a test from outside.
func outsideTheProgram(folder string) bool {
	top, _, _ := strings.Cut(folder, "/")
	return slices.Contains([]string{"examples", "bench", "test"}, top)
}

// foldersWithCode are the folders with Go files that are no tests, by their paths from the root.
func foldersWithCode(t *testing.T) (folders []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
		case !slices.Contains(folders, path.Dir(name)):
			folders = append(folders, path.Dir(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// checkNames checks the files and names of Go that a text has in code style: a name is declared in a file or folder that
// the same paragraph, step or row of a table names, a Type.Name as a method or field of that type, a package.Name in a
// package of that name. It returns the number of names. Of others it takes no notice.
func checkNames(t *testing.T, page, text string, others []string) (names int) {
	t.Helper()
	for _, block := range regexp.MustCompile(`\n\n|\n\||\n\d+\. `).Split(text, -1) {
		known, wanted := map[string]bool{}, []string{}
		for _, span := range codeSpans(block) {
			switch {
			case isPath(span):
				if mustBeThere(t, page, span) {
					addNames(t, known, span)
				}
			case goName.MatchString(span) && !slices.Contains(others, span):
				wanted = append(wanted, span)
			}
		}
		for _, name := range wanted {
			if names++; !known[name] {
				t.Errorf("%s: there is no %s where it says:\n%s", page, name, strings.TrimSpace(block))
			}
		}
	}
	return names
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	goName   = regexp.MustCompile(`^[A-Za-z]\w+(\.[A-Za-z]\w+)?$`)
)

func codeSpans(text string) (spans []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

// isPath reports whether a text in code style is a path from the root.
func isPath(s string) bool {
	if strings.ContainsAny(s, " <>(\"") {
		return false
	}
	_, err := os.Stat(s)
	return err == nil || strings.Contains(s, "/") || strings.HasSuffix(s, ".go") || strings.HasSuffix(s, ".md")
}

// mustBeThere reports whether a path exists, and fails the test otherwise.
func mustBeThere(t *testing.T, page, name string) bool {
	t.Helper()
	_, err := os.Stat(name)
	if err != nil {
		t.Errorf("%s names %s: there is no such file or folder", page, name)
	}
	return err == nil
}

// addNames adds what a file, or the files of a folder, declare: names, methods and fields as Type.Name and alone, and
// names of the package as package.Name.
func addNames(t *testing.T, known map[string]bool, name string) {
	t.Helper()
	files := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		files, _ = fs.Glob(os.DirFS("."), name+"/*.go")
	}
	for _, file := range files {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		d := declarations{known, tree.Name.Name}
		for _, decl := range tree.Decls {
			d.add(decl)
		}
	}
}

// declarations collects the names that files of a package declare.
type declarations struct {
	known map[string]bool
	pkg   string
}

func (d declarations) put(of string, name *ast.Ident) {
	d.known[name.Name], d.known[of+"."+name.Name] = true, true
}

func (d declarations) add(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		of := d.pkg
		if decl.Recv != nil {
			of = receiver(decl.Recv.List[0].Type)
		}
		d.put(of, decl.Name)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				d.put(d.pkg, spec.Name)
				d.members(spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					d.put(d.pkg, name)
				}
			}
		}
	}
}

// members adds the fields of a struct and the methods of an interface.
func (d declarations) members(spec *ast.TypeSpec) {
	var list *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			d.put(spec.Name.Name, name)
		}
	}
}

// receiver is the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
