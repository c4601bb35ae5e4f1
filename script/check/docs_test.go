package check_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

var fenced = regexp.MustCompile("(?s)```(?:python|yaml)(?: title=\\S+)?\n(.*?)```")

// TestScriptsInTheDocsAreCorrect checks the scripts of docs/scripting.md.
func TestScriptsInTheDocsAreCorrect(t *testing.T) {
	page, err := os.ReadFile("../../docs/scripting.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		for _, src := range scriptsIn(m[1]) {
			checked++
			for _, p := range check.File(script.File{Name: "scripting.md", Source: []byte(src)}, check.Options{Builtins: builtins.Table()}) {
				t.Errorf("%s\n%s", p, src)
			}
		}
	}
	if checked == 0 {
		t.Error("no script found")
	}
}

// inline is a script in a configuration, with its indent.
var inline = regexp.MustCompile(`(?m)^    script: \|\n((?:      .*\n|\n)+)`)

// scriptsIn returns the scripts in a block: the block itself, or those of a configuration.
func scriptsIn(block string) (found []string) {
	for _, m := range inline.FindAllStringSubmatch(block, -1) {
		found = append(found, strings.ReplaceAll("\n"+m[1], "\n      ", "\n"))
	}
	if found == nil && strings.Contains(block, "def run(") && !strings.Contains(block, "load(") {
		found = append(found, block)
	}
	return found
}
