package vmcp

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestBinaryHasNoTests: what is for tests is not linked into the program.
func TestBinaryHasNoTests(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/vmcp").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, module+"proxy") {
		t.Fatalf("go list names %d packages, and not proxy", len(packages))
	}
	for _, pkg := range packages {
		for _, not := range []string{"testing", "net/http/httptest", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal/testscript"} {
			if pkg == not || strings.HasPrefix(pkg, not+"/") {
				t.Errorf("the program contains %s", pkg)
			}
		}
		if strings.HasPrefix(pkg, module) && strings.HasSuffix(pkg, "test") {
			t.Errorf("the program contains %s, which is for tests", pkg)
		}
	}
}

// TestDependenciesAreExplained: every module that our code imports has a row in the table of
// docs/architecture.md, and every row a module.
func TestDependenciesAreExplained(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Dependencies and why\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section of dependencies")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var explained []string
	for line := range strings.SplitSeq(section, "\n") {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(row, "`")
			explained = append(explained, name)
		}
	}
	direct := directRequirements(t)
	for _, m := range direct {
		if !slices.Contains(explained, m) {
			t.Errorf("docs/architecture.md does not say why there is %s", m)
		}
	}
	for i, m := range explained {
		if slices.Contains(explained[:i], m) {
			t.Errorf("docs/architecture.md explains %s twice", m)
		}
		if !slices.Contains(direct, m) {
			t.Errorf("docs/architecture.md explains %s, which go.mod does not require directly", m)
		}
	}
}

// directRequirements are the modules of go.mod that are not marked as indirect.
func directRequirements(t *testing.T) (modules []string) {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") {
			modules = append(modules, fields[0])
		}
	}
	return modules
}
