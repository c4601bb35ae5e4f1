package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// checkFolder checks a configuration with a folder of scripts and returns the problems, without the folder's name.
func checkFolder(t *testing.T, cfg config.Config, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Scripts = []string{dir}
	cfg.Complete()
	err := proxy.Check(&cfg)
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
}

const helloStar = `
load("words.star", "greet")
tool(
    name = "hello",
    description = "Says hello.",
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    timeout = "5s",
    limits = {"steps": 5000, "memory": "1MB"},
    annotations = {"readOnlyHint": True},
)
def run(params):
    return {"said": greet(params["name"])}
`

func TestScriptsFolder(t *testing.T) {
	const words = `def greet(name): return "hello " + name`
	for _, tt := range []struct {
		name  string
		cfg   config.Config
		files map[string]string
		want  string // the problems
	}{
		{"a tool and a library", config.Config{}, map[string]string{"hello.star": helloStar, "words.star": words}, ""},
		{"no declaration", config.Config{}, map[string]string{"a.star": "# a\ndef run(params): return 1"},
			`a.star:2:1: error: the file defines run but declares no tool: want tool(name="...", description="...") at top level; a library has no run [tool-declaration]`},
		{"the rules of scriptedTools", config.Config{}, map[string]string{
			"a.star": "tool(name='a b', parameters={'type': 'array'}, timeout='soon', limits={'stepps': 1})\ndef run(params): return 1"},
			`a.star:1:1: error: tool.description: want a sentence that describes the tool for the model [tool-declaration]
a.star:1:6: error: tool.name: want 1 to 64 letters, digits, - and _; have "a b" [tool-declaration]
a.star:1:18: error: tool.parameters: want type: object at the root of the schema, have array [tool-declaration]
a.star:1:56: error: "soon" is not a duration; want for example "1h30m" or "2d" [tool-declaration]
a.star:1:72: error: tool.limits.stepps: unknown field [tool-declaration]`},
		{"a flag that is none", config.Config{}, map[string]string{
			"a.star": "tool(name='x', description='X.', trust_annotations='yes')\ndef run(params): return 1"},
			"a.star:1:52: error: tool: trust_annotations: want True or False, have string [tool-declaration]"},
		{"two files of one name", config.Config{}, map[string]string{
			"a.star": "tool(name='x', description='X.')\ndef run(params): return 1",
			"b.star": "\n  \ntool(name='x', description='X.')\ndef run(params): return 1"},
			`b.star:3:6: error: the tool x is also declared in a.star:1:6 [tool-duplicate]`},
		{"a name of the configuration", config.Config{ScriptedTools: []config.ScriptedTool{{Name: "x", Description: "X.", Script: "def run(params): return 1"}}},
			map[string]string{"a.star": "tool(name='x', description='X.')\ndef run(params): return 1"},
			`a.star:1:6: error: the tool x is also declared in scriptedTools[0] of the configuration [tool-duplicate]`},
		{"every file's problems", config.Config{}, map[string]string{
			"a.star": "tool(name='a', description='A.')\ndef run(params): return nothing",
			"b.star": "tool(nmae='b')\ndef run(params): return 1"},
			"a.star:2:25: error: undefined: nothing [undefined]\nb.star:1:6: error: tool: nmae: unknown argument, did you mean \"name\"? [tool-declaration]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := checkFolder(t, tt.cfg, tt.files); got != tt.want {
				t.Errorf("problems:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}
