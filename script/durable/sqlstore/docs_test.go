package sqlstore_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/durability.md names for a promise exists.
func TestPromisesHaveTests(t *testing.T) {
	root := os.DirFS("../../..")
	page, err := fs.ReadFile(root, "docs/durability.md")
	must(t, err)
	var tests strings.Builder
	for _, folder := range []string{"script", "builtins", "proxy", "test"} {
		must(t, fs.WalkDir(root, folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, name)
			tests.Write(text)
			return err
		}))
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	for _, n := range named {
		if !strings.Contains(tests.String(), "\nfunc "+n[1]+"(") {
			t.Errorf("docs/durability.md names %s, and there is no such test", n[1])
		}
	}
	for _, p := range []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"} {
		if !regexp.MustCompile(`\| ` + p + ` \| .*Test`).Match(page) {
			t.Errorf("docs/durability.md has no test for %s", p)
		}
	}
	if len(named) < 15 {
		t.Errorf("%d tests are named: too few", len(named))
	}
}
