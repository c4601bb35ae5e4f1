package migrate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"
	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

var update = flag.Bool("update", false, "rewrite what is expected")

// TestCases migrates the workflows in testdata in both styles, and compares the scripts, notes and
// problems with the files next to them.
func TestCases(t *testing.T) {
	for _, dir := range glob(t, "testdata/cases/*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for _, style := range []migrate.Style{migrate.Exact, migrate.Clean} {
				source, notes := migrateFile(t, filepath.Join(dir, "in.yaml"), migrate.Options{
					Style: style, Fix: strings.HasPrefix(filepath.Base(dir), "fixed"),
				})
				golden(t, filepath.Join(dir, string(style)+".star"), source)
				golden(t, filepath.Join(dir, string(style)+".notes"), notes)
			}
		})
	}
}

// migrateFile returns the scripts of a file, and the notes and problems about them.
func migrateFile(t *testing.T, file string, o migrate.Options) (source, notes string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defs, err := migrate.Parse("in.yaml", data)
	if err != nil {
		return "", err.Error() + "\n"
	}
	var sources, reported []string
	for _, d := range defs {
		s, err := migrate.Translate(d, o)
		if err != nil {
			reported = append(reported, err.Error()+"\n")
			continue
		}
		compiles(t, s)
		sources = append(sources, s.Source)
		for _, n := range s.Notes {
			reported = append(reported, n.String()+"\n")
		}
	}
	return strings.Join(sources, "\n"), strings.Join(reported, "")
}

// compiles checks that a script compiles, passes the static checks and
// is formatted.
func compiles(t *testing.T, s *migrate.Script) {
	t.Helper()
	_, err := script.Compile(script.File{Name: s.Name + ".star", Source: []byte(s.Source)},
		legacy.With(script.Options{Builtins: builtins.All()}))
	if err != nil {
		t.Errorf("%s: the script does not compile: %v\n%s", s.Pos, err, s.Source)
	}
	file := script.File{Name: s.Name + ".star", Source: []byte(s.Source)}
	for _, p := range check.File(file, check.Options{Builtins: builtins.Table()}) {
		t.Errorf("%s: %s\n%s", s.Pos, p, s.Source)
	}
	tree, err := build.ParseDefault(file.Name, file.Source)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Source, string(build.Format(tree))); diff != "" {
		t.Errorf("%s: not formatted: -have +want\n%s", s.Pos, diff)
	}
}

// TestModule loads every function that scripts may use, and finds it in docs/migrate.md.
func TestModule(t *testing.T) {
	guide, err := os.ReadFile("../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range migrate.Module {
		if !regexp.MustCompile("`" + name + "[`(]").Match(guide) {
			t.Errorf("the guide does not document %s", name)
		}
	}
	source := fmt.Sprintf("load(%q, %s)\ndef run(params):\n    return [type(f) for f in [%s]]\n",
		"legacy", `"`+strings.Join(migrate.Module, `", "`)+`"`, strings.Join(migrate.Module, ", "))
	p, err := script.Compile(script.File{Name: "all.star", Source: []byte(source)}, legacy.With(script.Options{Builtins: builtins.All()}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), script.RunOptions{}); err != nil {
		t.Error(err)
	}
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: nothing there: %v", pattern, err)
	}
	return files
}

// golden compares a text with a file; an empty text with no file.
func golden(t *testing.T, file, have string) {
	t.Helper()
	if *update {
		if have == "" {
			os.Remove(file)
			return
		}
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil && have != "" {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s: -want +have\n%s", file, diff)
	}
}
