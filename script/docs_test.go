package script_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

var fenced = regexp.MustCompile("(?s)```(?:python|yaml)\n(.*?)```")

// TestScriptsInTheDocsAreCorrect checks the scripts of docs/scripting.md.
func TestScriptsInTheDocsAreCorrect(t *testing.T) {
	page, err := os.ReadFile("../docs/scripting.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		src := m[1]
		if _, inline, ok := strings.Cut(src, "script: |\n"); ok {
			src = strings.ReplaceAll("\n"+inline, "\n      ", "\n")
		}
		if !strings.Contains(src, "def run(") {
			continue
		}
		checked++
		for _, p := range script.Check(script.File{Name: "scripting.md", Source: []byte(src)}, script.CheckOptions{Builtins: builtins.All()}) {
			t.Errorf("%s\n%s", p, src)
		}
	}
	if checked == 0 {
		t.Error("no script found")
	}
}
