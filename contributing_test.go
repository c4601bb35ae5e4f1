package vmcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestContributingNamesWhatIsThere: CONTRIBUTING.md says where things are added. The files and
// folders that it names exist, and a name in code style is one of a file or folder that the same
// paragraph or row names.
func TestContributingNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Where things are added\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md does not say where things are added")
	}
	section, _, _ = strings.Cut(section, "\n## Style\n")
	paths, names := 0, 0
	for _, block := range regexp.MustCompile(`\n\n|\n\||\n\d\. `).Split(section, -1) {
		known, wanted := map[string]bool{}, []string{}
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(block, -1) {
			switch s := span[1]; {
			case isPath(s):
				paths++
				addNames(t, known, s)
			case regexp.MustCompile(`^[A-Za-z]\w+(\.[A-Za-z]\w+)?$`).MatchString(s) && !slices.Contains(noNames, s):
				wanted = append(wanted, s[strings.LastIndex(s, ".")+1:])
			}
		}
		for _, name := range wanted {
			if names++; !known[name] {
				t.Errorf("CONTRIBUTING.md: there is no %s where it says:\n%s", name, strings.TrimSpace(block))
			}
		}
	}
	if paths < 50 || names < 35 {
		t.Errorf("CONTRIBUTING.md names %d files and %d names: the test does not read them all", paths, names)
	}
}

// noNames are words in code style that are no names of Go.
var noNames = []string{"json", "default", "enum", "omitempty", "bad", "cobra.Command", "meaning"}

func isPath(s string) bool {
	if strings.ContainsAny(s, " <>(\"") {
		return false
	}
	_, err := os.Stat(s)
	return err == nil || strings.Contains(s, "/") || strings.HasSuffix(s, ".go") || strings.HasSuffix(s, ".md")
}

// addNames adds what a file, or the files of a folder, declare.
func addNames(t *testing.T, known map[string]bool, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Errorf("CONTRIBUTING.md: %s: %v", path, err)
		return
	}
	files := []string{path}
	if info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*.go"))
	}
	for _, file := range files {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				known[n.Name.Name] = true
			case *ast.TypeSpec:
				known[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range n.Names {
					known[name.Name] = true
				}
			case *ast.Field:
				for _, name := range n.Names {
					known[name.Name] = true
				}
			}
			return true
		})
	}
}
