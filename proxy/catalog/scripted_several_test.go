package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestAFileIsCompiledOnce: for all of its tools, wherever they are declared, unless one sets a limit of compilation.
func TestAFileIsCompiledOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file := write("tools/shop.star", `
tool(name = "a", description = "A.", entry = "a")
tool(name = "b", description = "B.", entry = "b", limits = {"calls": 1}, timeout = "3s")
tool(name = "c", description = "C.", limits = {"source": "400B"})
def a(p): return 1
def b(p): return 2
def run(p): return 3
`)
	write("vmcp.yaml", fmt.Sprintf("scripts: [tools]\nscriptedTools:\n  - {name: d, description: D., scriptFile: %q, entry: b}\n  - {name: e, description: E., script: 'def e(p): return 5', entry: e}\n", file))
	cfg, err := config.Load(filepath.Join(dir, "vmcp.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	scripts, problems := Compile(cfg, Known{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var lines []string
	for _, text := range scripts.texts {
		lines = append(lines, fmt.Sprintf("%s: %d tools, compiled %d times", text.Entry, len(text.Source.Tools), len(text.made)))
	}
	if have, want := strings.Join(lines, "\n"), "shop.star: 4 tools, compiled 2 times\ne: 1 tools, compiled 1 times"; have != want {
		t.Errorf("\n got %s\nwant %s", have, want)
	}
	hashes := map[string]string{}
	for _, tool := range scripts.Tools() {
		hashes[tool.Name] = tool.Program.Hash()
		known, f := scripts.Tool(tool.Name)
		if known != tool || tool.Name != "e" && filepath.Base(f.Name) != "shop.star" {
			t.Errorf("%s is found in %s", tool.Name, f.Name)
		}
	}
	if len(hashes) != 5 || hashes["b"] != hashes["d"] || hashes["a"] == hashes["b"] || hashes["a"] == hashes["c"] {
		t.Errorf("the programs are identified by %v: want one for each function", hashes)
	}
}

// TestFilesThatAreTooLongForOneTool: the limit of one tool of a file is not that of another.
func TestFilesThatAreTooLongForOneTool(t *testing.T) {
	dir := t.TempDir()
	text := "tool(name = \"a\", description = \"A.\", entry = \"a\")\ntool(name = \"b\", description = \"B.\", entry = \"b\", limits = {\"source\": \"50B\"})\ndef a(p): return 1\ndef b(p): return 2\n"
	if err := os.WriteFile(filepath.Join(dir, "shop.star"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Scripts: []string{dir}}
	cfg.Complete()
	_, problems := Compile(cfg, Known{})
	if have, want := strings.ReplaceAll(problems.Error(), dir+string(filepath.Separator), ""), fmt.Sprintf("shop.star:1:1: error: the file has %d bytes, the limit is 50B [load]", len(text)); have != want {
		t.Errorf("\n got %s\nwant %s", have, want)
	}
}
