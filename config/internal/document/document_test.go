package document_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

type garden struct {
	Name   string            `json:"name"`
	Kind   string            `json:"kind,omitempty" enum:"wild,tame"`
	Beds   []bed             `json:"beds,omitempty"`
	Notes  map[string]string `json:"notes,omitempty"`
	Schema document.Raw      `json:"schema,omitempty"`
	Wait   limits.Duration   `json:"wait,omitempty"`
}

type bed struct {
	Plants int `json:"plants,omitempty"`
}

var rules = document.Rules{Code: "garden",
	Field: func(_ reflect.Type, name string) string {
		return map[string]string{"pond": "is not dug yet; remove it"}[name]
	},
	Value: func(_, value string) string { return map[string]string{"zoo": "animals are not kept"}[value] }}

func TestDecode(t *testing.T) {
	d, g := document.New("g.yaml", rules), garden{}
	ok := d.Decode([]byte(`# a comment
name: &n Eden
kind: wild
beds:
  - plants: 3
  - {plants: 4}
notes:
  a b: |-
    x
schema: {type: object, maximum: 12345678901234567890.0}
wait: 90s
`), 1<<10, &g)
	if !ok || len(d.Problems) > 0 {
		t.Fatalf("Decode: %v", d.Problems)
	}
	if g.Name != "Eden" || g.Kind != "wild" || len(g.Beds) != 2 || g.Beds[1].Plants != 4 || g.Notes["a b"] != "x" || g.Wait.Std().Seconds() != 90 {
		t.Errorf("Decode = %+v", g)
	}
	if string(g.Schema.JSON) != `{"type":"object","maximum":12345678901234567890.0}` {
		t.Errorf("as JSON: %s", g.Schema.JSON)
	}
	for path, want := range map[string]diag.Pos{
		"beds[1].plants":  {File: "g.yaml", Line: 6, Column: 14},
		"beds[1].missing": {File: "g.yaml", Line: 6, Column: 5}, // the value around it
		`notes["a b"]`:    {File: "g.yaml", Line: 8, Column: 8},
	} {
		if got := d.Place(path); got != want {
			t.Errorf("Place(%s) = %v, want %v", path, got, want)
		}
	}
	if !d.Has("kind") || d.Has("beds[2]") {
		t.Error("Has does not tell what is there")
	}
}

// TestProblems: all problems are returned, each once, and the valid values are decoded.
func TestProblems(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"", "1:1: the file is empty; want at least backends: with one entry"},
		{"name: a\n\tx: 1", "2:1: indented with a tab; YAML wants spaces"},
		{"name: a\n\t# fine\nkind: \"ü\x00\"", `3:9: a control character (U+0000); in double quotes it can be written as "\x00"`},
		{"name: a\r\nkind: b\x1b[31m", `2:8: a control character (U+001B); in double quotes it can be written as "\x1b"`},
		{"# *x\nname: \"*x\"\nkind: &xy wild\nwait: *x", "4:7: not YAML: unknown anchor 'x' referenced"},
		{"# a\u2028b: [\nname: a", `1:4: YAML ends a line at U+2028, which editors do not; in double quotes it can be written as "\L"`},
		{"name: \"a\u0085b\"\nkind: \"b", "2:1: not YAML: found unexpected end of stream"},
		{"name: \xff", "1:7: not UTF-8 text; save the file as UTF-8"},
		{"\x00n\x00a", "1:1: not UTF-8 text; save the file as UTF-8"},
		{"# a\n%YAML 1.2\n---\nname: a", "2:1: not YAML: found incompatible YAML document; remove this line"},
		{"name: a\nkynd: wild\npond: 1\nkind: zoo", `2:1: kynd: unknown field; did you mean "kind"?
3:1: pond: is not dug yet; remove it
4:7: kind: animals are not kept`},
		{"name: a\nkind: tamed\nbeds: [{plants: 0}, {plants: x}, ]", `2:7: kind: want wild or tame, have "tamed"; did you mean "tame"?
3:17: beds[0].plants: want a positive number, have 0
3:30: beds[1].plants: want a whole number, have a string`},
		{"kind: wild\nkind: tame", `1:1: name: missing; it needs one
2:1: kind: given twice, first in line 1`},
		{"name: &a [*a]", `1:11: *a is inside of &a, which it refers to: a cycle`},
		{"name: " + strings.Repeat("x", 2<<10), "1:1: the file is larger than 1KB"},
	} {
		d := document.New("g.yaml", rules)
		d.Decode([]byte(tt.yaml), 1<<10, &garden{})
		var got []string
		for _, p := range d.Problems.Sorted() {
			text := p.Error()
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(text, "g.yaml:"), " [garden]"))
		}
		if joined := strings.ReplaceAll(strings.Join(got, "\n"), " error:", ""); joined != tt.want {
			t.Errorf("%.40q\n got %s\nwant %s", tt.yaml, joined, tt.want)
		}
	}
}

// TestReport: a value that has a problem gets no second one, nor do the values in it.
func TestReport(t *testing.T) {
	d := document.New("g.yaml", rules)
	d.Decode([]byte("name: a\nbeds: [{plants: 1}]"), 1<<10, &garden{})
	d.Report("beds[0]", "too small")
	d.Report("beds[0].plants", "too few")
	d.Report("name", "taken")
	if len(d.Problems) != 2 || !d.Broken("beds[0]") || !d.BrokenBelow("beds") || d.Broken("beds") {
		t.Errorf("problems %v", d.Problems)
	}
}
