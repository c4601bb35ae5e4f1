package builtins_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/builtins"
)

var update = flag.Bool("update", false, "rewrite the generated reference page")

const referencePage = "../docs/reference/builtins.md"

func TestEveryExampleOfTheReferenceRuns(t *testing.T) {
	for _, b := range builtins.Table() {
		t.Run(b.Name, func(t *testing.T) {
			if b.Example == "" {
				t.Fatal("no example")
			}
			synctest.Test(t, func(t *testing.T) {
				if err := execChunk(t, b.Name+".star", asserted(string(b.Example))); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// asserted turns "x  # → 2" into eq(x, 2).
func asserted(example string) string {
	lines := strings.Split(example, "\n")
	for i, line := range lines {
		if x, want, ok := strings.Cut(line, "  # → "); ok {
			lines[i] = "eq(" + x + ", " + want + ")"
		}
	}
	return strings.Join(lines, "\n")
}

func TestEveryBuiltinHasATestFile(t *testing.T) {
	for _, b := range builtins.Table() {
		if _, err := os.Stat(filepath.Join("testdata", b.Name+".star")); err != nil {
			t.Error(err)
		}
	}
}

// TestBuiltinsThatCallToolsSayTheirArguments: a builtin with a parameter that names a tool also has the one with the tool's
// arguments, without which checks and completions would skip them.
func TestBuiltinsThatCallToolsSayTheirArguments(t *testing.T) {
	calls := 0
	for _, b := range builtins.Table() {
		if b.Tool.Name == "" {
			continue
		}
		calls++
		if b.Args.Name == "" || !strings.Contains(b.Signature, b.Args.Name) {
			t.Errorf("%s(%s) names a tool by %s, and its arguments by %q", b.Name, b.Signature, b.Tool.Name, b.Args.Name)
		}
	}
	if calls < 3 {
		t.Errorf("%d builtins call tools, want call_tool, try_call_tool and pages", calls)
	}
}

func TestReferencePageIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := builtins.WriteReference(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(referencePage), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referencePage, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePage)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the table says (%v): run go test ./builtins -run Reference -update", referencePage, err)
	}
}
