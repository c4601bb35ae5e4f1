package diag_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

func ExampleProblem() {
	fmt.Println(diag.Problem{
		Pos: diag.Pos{File: "tools/refund.star", Line: 14, Column: 31}, Code: "tool-unknown",
		Message: `no tool "shop_refnd"`, Hint: `did you mean "shop_refund"?`,
	}.Error())
	// Output: tools/refund.star:14:31: error: no tool "shop_refnd"; did you mean "shop_refund"? [tool-unknown]
}

func TestAProblemIsOneLine(t *testing.T) {
	for _, tt := range []struct {
		p    diag.Problem
		want string
	}{
		{diag.Problem{Message: "m"}, "error: m"},
		{diag.Problem{Pos: diag.Pos{File: "f"}, Message: "m", Severity: diag.Warning}, "f: warning: m"},
		{diag.Problem{Pos: diag.Pos{File: "f", Line: 2, Column: 3}, Path: "a.b", Code: "config", Message: "m"}, "f:2:3: error: a.b: m [config]"},
		{diag.Problem{Message: "a\nf:1:1: error: b\x1b[31m"}, `error: a\nf:1:1: error: b\x1b[31m`},
	} {
		if got := tt.p.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestJSONSaysTheSeverity(t *testing.T) {
	got, err := json.Marshal(diag.Problem{Pos: diag.Pos{File: "f", Line: 1, Column: 2}, EndLine: 1, EndColumn: 5, Code: "c", Message: "m", Hint: "h", Path: "p",
		Related: []diag.Related{{Pos: diag.Pos{File: "g", Line: 3, Column: 4}, Message: "n"}}})
	const want = `{"file":"f","line":1,"column":2,"endLine":1,"endColumn":5,"severity":"error","code":"c","message":"m","hint":"h","path":"p",` +
		`"related":[{"file":"g","line":3,"column":4,"message":"n"}]}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestOnePerPlaceAndCode(t *testing.T) {
	at := func(file string, line, column int, code, message string) diag.Problem {
		return diag.Problem{Pos: diag.Pos{File: file, Line: line, Column: column}, Code: code, Message: message}
	}
	got := diag.Problems{at("b", 1, 1, "x", "1"), at("a", 2, 1, "x", "2"), at("a", 1, 9, "x", "3"), at("a", 1, 9, "x", "4"), at("a", 1, 9, "y", "5"),
		{Message: "6"}}.OnePerPlace().Error()
	const want = "error: 6\na:1:9: error: 3 [x]\na:1:9: error: 5 [y]\na:2:1: error: 2 [x]\nb:1:1: error: 1 [x]"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFilesAreNamedFromTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Join(dir))
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a.star":                               "a.star",
		"./lib/../a.star":                      "a.star",
		filepath.Join(dir, "lib", "..x.star"):  "lib/..x.star",
		filepath.Join(filepath.Dir(dir), "up"): filepath.ToSlash(filepath.Join(filepath.Dir(dir), "up")),
		"../up":                                filepath.ToSlash(filepath.Join(filepath.Dir(dir), "up")),
		"<stdin>":                              "<stdin>",
		"":                                     "",
	} {
		if got := diag.File(name); got != want {
			t.Errorf("File(%q) = %q, want %q", name, got, want)
		}
	}
}
