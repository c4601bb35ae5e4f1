package check_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

const corpus = "testdata/corpus"

// corpusTools are what the scripts of the corpus can call.
func corpusTools(t testing.TB) map[string]check.Tool {
	var read map[string]struct{ Input, Output, Annotations json.RawMessage }
	data, err := os.ReadFile(corpus + "/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	tools := map[string]check.Tool{}
	for name, tool := range read {
		tools[name] = check.Tool{Input: tool.Input, Output: tool.Output, Annotations: tool.Annotations}
	}
	return tools
}

// corpusSource is a file that says itself which tool it is.
func corpusSource(name string, text []byte) (check.Source, []string) {
	src := check.Source{File: script.File{Name: filepath.Base(name), Source: text}}
	declared, problems := check.ReadDeclarations(src.File, script.Limits{})
	for _, d := range declared {
		src.Tools = append(src.Tools, d.Tool())
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return src, lines
}

func checkCorpus(t testing.TB, name string, tools map[string]check.Tool) []string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	src, lines := corpusSource(name, text)
	for _, p := range check.Check([]check.Source{src}, corpusOptions(tools)).Problems() {
		lines = append(lines, p.Error())
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func corpusOptions(tools map[string]check.Tool) check.Options {
	return check.Options{Builtins: builtins.Table(), Tools: tools, Load: script.Library{Dirs: []string{corpus + "/lib"}}.Load}
}

// share counts what is found of a code.
type share struct{ all, found, line, text int }

// TestCorpus checks the mistakes of a corpus: one in each file, whose first line has its position and code. Most are
// found, at the right line; some of them by the text alone.
func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob(corpus + "/mistakes/*.star")
	tools := corpusTools(t)
	shares, total := map[string]*share{}, &share{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var line int
		var code string
		if _, err := fmt.Sscanf(string(text), "# finds: %d %s\n", &line, &code); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := shares[code]
		if s == nil {
			s = &share{}
			shares[code] = s
		}
		got := checkCorpus(t, name, tools)
		anywhere, at := told(got, code, line)
		textOnly, _ := told(checkCorpus(t, name, nil), code, line)
		for _, one := range []*share{s, total} {
			one.all++
			one.found += count(anywhere)
			one.line += count(at)
			one.text += count(textOnly)
		}
		if !at {
			t.Logf("%s: want %d [%s], got\n\t%s", name, line, code, strings.Join(got, "\n\t"))
		}
	}
	for _, code := range slices.Sorted(keys(shares)) {
		t.Logf("%-20s %3d: %3d found, %3d at the line, %3d by the text alone", code, shares[code].all, shares[code].found, shares[code].line, shares[code].text)
	}
	t.Logf("%-20s %3d: %3d found, %3d at the line, %3d by the text alone", "all", total.all, total.found, total.line, total.text)
	if total.all < 100 || total.found*100 < 95*total.all || total.line*100 < 92*total.all || total.text*100 < 45*total.all {
		t.Errorf("of %d mistakes %d were found, %d at the right line, %d by the text alone", total.all, total.found, total.line, total.text)
	}
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// told reports whether a problem of a code was found at all, and at its line.
func told(lines []string, code string, line int) (anywhere, at bool) {
	for _, l := range lines {
		parts := strings.SplitN(l, ":", 4)
		if strings.HasSuffix(l, "["+code+"]") {
			anywhere = true
			at = at || len(parts) > 2 && parts[1] == fmt.Sprint(line)
		}
	}
	return anywhere, at
}

// TestOddScriptsAreFine checks correct scripts that look unusual: no problems are reported.
func TestOddScriptsAreFine(t *testing.T) {
	files, _ := filepath.Glob(corpus + "/odd/*.star")
	if len(files) < 50 {
		t.Errorf("there are %d scripts, want at least 50", len(files))
	}
	tools := corpusTools(t)
	for _, name := range files {
		for _, l := range append(checkCorpus(t, name, tools), checkCorpus(t, name, nil)...) {
			t.Errorf("%s: %s", name, l)
		}
	}
}
