package scripttests

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/suite"
)

// Whatever a test says, the report is XML 1.0, and each message stays in its place.
func TestJUnitTakesAnyText(t *testing.T) {
	const message = "a\x1b[31m\x00\u0085\ufffe <&> \"]]>\xff\n::error::x"
	r := &suite.Report{}
	r.Add(suite.Test{File: "x_test.star", Name: "test_a", Status: suite.Failed, Problems: []suite.Problem{{Code: suite.CodeFailed, File: "x_test.star", Line: 1, Column: 1, Message: message}}})
	r.Add(suite.Test{File: "x_test.star", Name: "test_b", Status: suite.Skipped})
	var out strings.Builder
	if err := WriteJUnit(&out, r, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal([]byte(out.String()), &read); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	s := read.Suites[0]
	const want = `a\u001b[31m\u0000\u0085\ufffe <&> "]]>` + "\ufffd\n::error::x"
	if s.Tests != 2 || s.Failures != 1 || s.Skipped != 1 || s.Cases[0].Failures[0].Message != want || s.Cases[0].Failures[0].Type != "test-failed" {
		t.Errorf("read %+v, want the message %q", s, want)
	}
}

func TestRanges(t *testing.T) {
	if have := ranges([]int{1, 3, 4, 5, 9}); have != "1, 3-5, 9" {
		t.Errorf("ranges are %q", have)
	}
}

// Only the tests run again that a change can matter to.
func TestReach(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := dir + "/" + name
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := write("vmcp.yaml", "backends: [{name: a, url: \"http://127.0.0.1:1/mcp\"}]\nscripts: [tools]\n")
	lib := write("tools/money.star", "def cents(x):\n    return x\n")
	write("tools/pay.star", "load(\"money.star\", \"cents\")\ntool(name = \"pay\", description = \"d\")\ndef run(params):\n    return cents(1)\n")
	other := write("tools/other.star", "tool(name = \"other\", description = \"d\")\ndef run(params):\n    return 1\n")
	pay := write("tools/pay_test.star", "def test_a():\n    testing.run(\"pay\")\n")
	rest := write("tools/rest_test.star", "load(\"other.star\", \"run\")\ndef test_a():\n    pass\n")
	reach := ReachOf(cfg, nil)
	for _, tt := range []struct {
		changed, want string
		all           bool
	}{{lib, pay, false}, {other, rest, false}, {rest, rest, false}, {cfg, "", true}} {
		tests, all := reach.Reached([]string{tt.changed})
		if strings.Join(tests, " ") != tt.want || all != tt.all {
			t.Errorf("%s reaches %v, %t, want %s, %t", tt.changed, tests, all, tt.want, tt.all)
		}
	}
}
