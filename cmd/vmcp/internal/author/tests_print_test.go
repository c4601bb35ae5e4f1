package author_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
)

// The report is XML 1.0 whatever a test prints, and each message is in its element.
func TestJUnitTakesAnyText(t *testing.T) {
	const message = "a\x1b[31m\x00\u0085\ufffe <&> \"]]>\xff\n::error::x"
	r := &suite.Report{}
	r.Add(suite.Test{File: "x_test.star", Name: "test_a", Status: suite.Failed, Problems: []suite.Problem{{Code: suite.CodeFailed, File: "x_test.star", Line: 1, Column: 1, Message: message}}})
	r.Add(suite.Test{File: "x_test.star", Name: "test_b", Status: suite.Skipped})
	var out strings.Builder
	if err := author.WriteJUnit(&out, r, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Failures []struct {
					Message string `xml:"message,attr"`
					Type    string `xml:"type,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(out.String()), &read); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	s := read.Suites[0]
	const want = `a\u001b[31m\u0000\u0085\ufffe <&> "]]>` + "\ufffd\n::error::x"
	if s.Tests != 2 || s.Failures != 1 || s.Skipped != 1 || s.Cases[0].Failures[0].Message != want || s.Cases[0].Failures[0].Type != "test-failed" {
		t.Errorf("read %+v, want the message %q", s, want)
	}
}

func TestMissingLinesAreRanges(t *testing.T) {
	r := &suite.Report{Coverage: &suite.Coverage{Files: []suite.CoveredFile{{File: "x.star", Missing: []int{1, 3, 4, 5, 9}}}}}
	var out strings.Builder
	if err := author.WriteText(&out, r, true, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "missing in 1, 3-5, 9\n") {
		t.Errorf("the report is %q", out.String())
	}
}

// After a change only the tests run that it can affect.
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
	reach := author.ReachOf(cfg, nil)
	for _, tt := range []struct {
		changed, want string
		all           bool
	}{{lib, pay, false}, {other, rest, false}, {rest, rest, false}, {cfg, "", true}} {
		tests, all := reach.Reached([]string{tt.changed})
		if strings.Join(tests, " ") != tt.want || all != tt.all {
			t.Errorf("%s reaches %v, %t, want %s, %t", tt.changed, tests, all, tt.want, tt.all)
		}
	}
	// While something cannot be read, the change that mends it is not missed.
	for _, broken := range []struct{ name, text string }{
		{"tools/money.star", "def cents(x:\n"}, {"tools/rest_test.star", "load(\"no.star\", \"run\")\n"}, {"tools/rest_test.star", "def test_a(:\n"}, {"vmcp.yaml", "backends: [\n"},
	} {
		before, err := os.ReadFile(filepath.Join(dir, broken.name))
		if err != nil {
			t.Fatal(err)
		}
		write(broken.name, broken.text)
		if _, all := author.ReachOf(cfg, nil).Reached([]string{lib}); !all {
			t.Errorf("with %q in %s a change of a script does not reach all tests", broken.text, broken.name)
		}
		write(broken.name, string(before))
	}
}
