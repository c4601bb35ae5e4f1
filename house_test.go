package vmcp

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// mostFunction bounds the lines of a function; half of them have ten.
	mostFunction = 60
	// mostBranches bounds its cyclomatic complexity: one, and one more for each if, loop, case, && and ||.
	mostBranches = 25
)

// tables are functions that are one switch with a line for each case.
var tables = map[string]string{
	"backends.Of":                    "kind of backend, caller and client: which connection",
	"config/lock.schema":             "keywords of a schema, each with its comparison",
	"script/check/types.fitDict":     "members of a schema",
	"script/check/types.habit":       "methods of the language",
	"script/check/types.operationOf": "operators and pairs of types",
	"script/internal/meter.compare":  "pairs of types",
}

// TestFunctionsHaveASize: the sections of a long function are functions.
func TestFunctionsHaveASize(t *testing.T) {
	functions := 0
	for name, f := range readFolders(t, ".") {
		if room(name) == "test" {
			continue
		}
		for _, file := range f.files {
			for _, d := range file.tree.Decls {
				d, ok := d.(*ast.FuncDecl)
				if !ok || file.test {
					continue
				}
				functions++
				if n := branches(d); n > mostBranches && tables[name+"."+d.Name.Name] == "" {
					t.Errorf("%s: %s has a cyclomatic complexity of %d, want at most %d", file.set.Position(d.Pos()), d.Name.Name, n, mostBranches)
				}
				if n := file.set.Position(d.End()).Line - file.set.Position(d.Pos()).Line + 1; n > mostFunction {
					t.Errorf("%s: %s has %d lines, want at most %d", file.set.Position(d.Pos()), d.Name.Name, n, mostFunction)
				}
			}
		}
	}
	if functions < 3000 {
		t.Errorf("%d functions were looked at: too few", functions)
	}
}

// branches is the cyclomatic complexity of a function.
func branches(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// TestExportsAreUsed: a name at package level has a capital if another package uses it, or if it is part of the signature,
// the fields or the methods of such a name. Examples of the program's own packages count as other packages.
func TestExportsAreUsed(t *testing.T) {
	packages := readFolders(t, ".")
	for _, unused := range unusedExports(packages) {
		if name, _, _ := strings.Cut(unused, "."); !outsideTheProgram(name) {
			t.Errorf("%s: no other package uses it", unused)
		}
	}
}

func TestUnusedExportsAreSeen(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go": "package a\n\ntype Shown struct{ F Field; m Hidden }\ntype Field int\ntype Hidden int\nconst Most = 3\nfunc New(o Options) *Shown { return nil }\n" +
			"func Alone() {}\ntype Options struct{}\nfunc (s *Shown) Do() Result { return 0 }\ntype Result int\n",
		"b/b.go":      "package b\n\nimport \"" + module + "a\"\n\nvar _ = a.New\n",
		"a/x_test.go": "package a_test\n\nimport \"" + module + "a\"\n\nvar _ = a.Most\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, want := unusedExports(readFolders(t, dir)), []string{"a.Alone", "a.Hidden"}; !slices.Equal(found, want) {
		t.Errorf("unused = %q, want %q", found, want)
	}
}

// unusedExports lists the exported names at package level that only their own package uses, as folder.Name.
func unusedExports(packages map[string]*folder) (unused []string) {
	used := map[string]bool{}
	var next []string
	use := func(folder, name string) {
		if key := folder + "." + name; ast.IsExported(name) && !used[key] {
			used[key] = true
			next = append(next, key)
		}
	}
	for from, f := range packages {
		for _, file := range f.files {
			ast.Inspect(file.tree, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && file.imports[x.Name] != "" && (file.imports[x.Name] != from || file.external) {
						use(file.imports[x.Name], s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for len(next) > 0 {
		key := next[0]
		next = next[1:]
		folder, name := key[:strings.LastIndex(key, ".")], key[strings.LastIndex(key, ".")+1:]
		if packages[folder] == nil {
			continue
		}
		for _, n := range packages[folder].shown[name] {
			ast.Inspect(n, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BlockStmt:
					return false
				case *ast.SelectorExpr:
					return false // of another package: used there
				case *ast.Field:
					if len(n.Names) > 0 && !slices.ContainsFunc(n.Names, func(id *ast.Ident) bool { return ast.IsExported(id.Name) || !isField(packages[folder], n) }) {
						return false
					}
				case *ast.Ident:
					use(folder, n.Name)
				}
				return true
			})
		}
	}
	for folder, f := range packages {
		for name := range f.shown {
			if ast.IsExported(name) && !used[folder+"."+name] {
				unused = append(unused, folder+"."+name)
			}
		}
	}
	slices.Sort(unused)
	return unused
}

// isField reports whether a field is one of a struct, not a parameter or result.
func isField(f *folder, field *ast.Field) bool { return f.fields[field] }

// A folder is a package with its tests.
type folder struct {
	files       []*goFile
	imports     map[string]bool // folders of ours that its code imports
	testImports map[string]bool // and its tests
	lines       int             // without tests
	tests       int
	main        bool
	shown       map[string][]ast.Node // what a name of its code shows: its signature, its type, its methods
	fields      map[*ast.Field]bool   // of structs
}

type goFile struct {
	set            *token.FileSet
	tree           *ast.File
	text           string
	test, external bool
	imports        map[string]string // folders of ours by the names that the file has for them
}

// readFolders reads the Go files below a folder, by their folders. Other modules and testdata are left out.
func readFolders(t *testing.T, root string) map[string]*folder {
	t.Helper()
	packages := map[string]*folder{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".":
			if _, err := os.Stat(filepath.Join(root, name, "go.mod")); err == nil || d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || path.Dir(name) == ".":
			return nil
		}
		f := packages[path.Dir(name)]
		if f == nil {
			f = &folder{imports: map[string]bool{}, testImports: map[string]bool{}, shown: map[string][]ast.Node{}, fields: map[*ast.Field]bool{}}
			packages[path.Dir(name)] = f
		}
		return f.read(root, name)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range packages { // a folder of nothing but tests is none of the program's
		if f.lines == 0 && !slices.Contains(slices.Collect(maps.Keys(mayImport)), name) {
			f.main = true
		}
	}
	return packages
}

// eachSource reads the Go files that are no tests.
func eachSource(t *testing.T, f func(text string)) {
	t.Helper()
	for name, folder := range readFolders(t, ".") {
		for _, file := range folder.files {
			if !file.test && room(name) != "test" {
				f(file.text)
			}
		}
	}
}

func (f *folder) read(root, name string) error {
	src, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	file := &goFile{set: token.NewFileSet(), text: string(src), test: strings.HasSuffix(name, "_test.go"), imports: map[string]string{}}
	if file.tree, err = parser.ParseFile(file.set, name, src, parser.SkipObjectResolution); err != nil {
		return err
	}
	f.files = append(f.files, file)
	file.external = strings.HasSuffix(file.tree.Name.Name, "_test")
	for _, spec := range file.tree.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		ours, ok := strings.CutPrefix(full, module)
		if !ok {
			continue
		}
		as := path.Base(ours)
		if spec.Name != nil {
			as = spec.Name.Name
		}
		file.imports[as] = ours
		if file.test {
			f.testImports[ours] = true
		} else {
			f.imports[ours] = true
		}
	}
	if file.test {
		f.tests++
		return nil
	}
	f.lines += strings.Count(string(src), "\n")
	f.main = f.main || file.tree.Name.Name == "main"
	f.declare(file.tree)
	return nil
}

// declare adds what the names of a file show.
func (f *folder) declare(tree *ast.File) {
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case d.Recv == nil:
				f.shown[d.Name.Name] = append(f.shown[d.Name.Name], d.Type)
			case ast.IsExported(d.Name.Name):
				of := receiver(d.Recv.List[0].Type)
				f.shown[of] = append(f.shown[of], d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					f.shown[spec.Name.Name] = append(f.shown[spec.Name.Name], spec.Type)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						f.shown[id.Name] = append(f.shown[id.Name], spec)
					}
				}
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				f.fields[field] = true
			}
		}
		return true
	})
}
