package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// A library is checked once, however many tools load it; mistakes in one that nothing loads are reported and do not
// prevent serving.
func TestLibrariesAreCheckedAgainstTheTools(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"loaded.star":     "def f():\n    return call_tool(\"ecko\")\n",
		"unloaded.star":   "def f():\n    return missin\n",
		"words_test.star": "def test_f():\n    testing.eq(1, 1)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const script = "load(\"loaded.star\", \"f\")\ndef run(params): return f()\n"
	p, _ := start(t, &config.Config{
		Backends:  []config.Backend{{Name: "one", URL: sdkBackend(t, echoServer("one"), false)}},
		Libraries: []config.Library{{Path: dir}},
		ScriptedTools: []config.ScriptedTool{
			{Name: "a", Description: "A.", Script: script}, {Name: "b", Description: "B.", Script: script},
		},
	})
	var got []string
	for _, pr := range p.Status().Problems {
		got = append(got, pr.Entry+" "+strings.ReplaceAll(pr.Text(), filepath.ToSlash(dir)+"/", ""))
		if pr.EndColumn == 0 {
			t.Errorf("no end: %+v", pr)
		}
	}
	want := strings.Join([]string{
		`loaded.star loaded.star:2:22: error: no tool "ecko"; did you mean echo? [tool-unknown]`,
		`unloaded.star unloaded.star:2:12: error: undefined: missin [undefined]`,
	}, "\n")
	if all := strings.Join(got, "\n"); all != want {
		t.Errorf("problems\n%s\nwant\n%s", all, want)
	}
}

// A mistake in code that may never run is reported, by validate as an error, and the tool is served.
func TestWhatCompilesIsServed(t *testing.T) {
	cfg := &config.Config{ScriptedTools: []config.ScriptedTool{{
		Name: "a", Description: "A.", Output: config.Raw{JSON: []byte(`{"type": "object", "properties": {"n": {"type": "integer"}}}`)},
		Script: "def run(params):\n    if params:\n        return {\"n\": \"one\"}\n    return {\"n\": 1}\n",
	}}}
	const want = `a.star:3:22: error: n wants an integer, this is a string [output]`
	if got := proxy.Check(cfg).Error(); got != want {
		t.Errorf("Check:\n got %s\nwant %s", got, want)
	}
	p, _ := start(t, cfg)
	if pr := p.Status().Problems; len(pr) != 1 || pr[0].Entry != "a" || pr[0].Text() != want {
		t.Errorf("problems: %+v", pr)
	}
	if tools := p.Status().Tools; len(tools) != 1 {
		t.Errorf("tools: %+v", tools)
	}
}
