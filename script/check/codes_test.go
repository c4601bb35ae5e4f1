package check_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// shop is the backend of the examples.
var shop = map[string]check.Tool{
	"shop_get_order": {
		Input:       json.RawMessage(`{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false}`),
		Output:      json.RawMessage(`{"type": "object", "required": ["id", "status", "total", "buyer"], "properties": {"id": {"type": "string"}, "status": {"enum": ["new", "paid", "shipped"]}, "total": {"type": "number"}, "coupon": {"type": "string"}, "buyer": {"type": "object", "required": ["id", "email"], "properties": {"id": {"type": "string"}, "email": {"type": ["string", "null"]}}}}}`),
		Annotations: json.RawMessage(`{"readOnlyHint": true}`),
	},
	"shop_refund": {
		Input:       json.RawMessage(`{"type": "object", "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "minimum": 1, "maximum": 500000}, "reason": {"enum": ["late", "broken"]}}, "required": ["order", "cents"], "additionalProperties": false}`),
		Output:      json.RawMessage(`{"type": "object", "properties": {"refund": {"type": "integer"}}, "required": ["refund"]}`),
		Annotations: json.RawMessage(`{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false}`),
	},
	"shop_orders": {
		Input:       json.RawMessage(`{"type": "object", "properties": {"cursor": {"type": "string"}}}`),
		Output:      json.RawMessage(`{"type": "object", "properties": {"orders": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}, "total": {"type": "number"}}, "required": ["id", "total"]}}, "next": {"type": "string"}}, "required": ["orders"]}`),
		Annotations: json.RawMessage(`{"readOnlyHint": true}`),
	},
}

// checkText checks a text that says itself which tool it is.
func checkText(name, text string, tools map[string]check.Tool) []string {
	f := script.File{Name: name, Source: []byte(text)}
	src := check.Source{File: f}
	declared, problems := check.ReadDeclarations(f, script.Limits{})
	for _, d := range declared {
		src.Tools = append(src.Tools, d.Tool())
	}
	p := check.Check([]check.Source{src}, check.Options{Builtins: builtins.Table(), Tools: tools, Load: script.Library{}.Load})
	var lines []string
	for _, one := range append(problems, p.Problems()...).OnePerPlace() {
		lines = append(lines, one.Error())
	}
	return lines
}

// TestEveryCodeHasAnExample finds the example of each code, at its line and column, and nothing
// in what would be right.
func TestEveryCodeHasAnExample(t *testing.T) {
	for _, c := range codes.Table {
		if c.Wrong == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			text := c.Wrong
			if !strings.Contains(text, "def run(") {
				text = "def run(params):\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
			}
			before, after, ok := strings.Cut(text, "§")
			if !ok {
				t.Fatal("nothing is marked")
			}
			line := strings.Count(before, "\n") + 1
			column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
			got := checkText("a.star", before+after, shop)
			want := fmt.Sprintf("a.star:%d:%d: %s: ", line, column, c.Severity())
			found := false
			for _, l := range got {
				found = found || strings.HasPrefix(l, want) && strings.HasSuffix(l, "["+c.Name+"]")
			}
			if !found || len(got) != 1 {
				t.Errorf("%s\n got %s\nwant %s[%s]", before+after, strings.Join(got, "\n"), want, c.Name)
			}
			if strings.Contains(c.Right, "return") && !strings.Contains(c.Wrong, "def ") {
				right := "def run(params):\n    " + strings.ReplaceAll(c.Right, "\n", "\n    ") + "\n"
				if got := checkText("a.star", right, shop); len(got) > 0 {
					t.Errorf("%s\n got %s", right, strings.Join(got, "\n"))
				}
			}
		})
	}
}

const checkingPage = "../../docs/checking.md"

// TestDocsListTheCodes: the end of docs/checking.md is written from the table.
func TestDocsListTheCodes(t *testing.T) {
	page, err := os.ReadFile(checkingPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(page), "\n| Code |")
	if !ok {
		head = strings.TrimRight(head, "\n") + "\n"
	}
	want := bytes.NewBufferString(head + "\n")
	if err := codes.WriteDocs(want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(checkingPage, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(page, want.Bytes()) {
		t.Errorf("%s is not what the table says: run go test ./script/check -run Docs -update", checkingPage)
	}
}

var update = flag.Bool("update", false, "rewrite the list of codes in the documentation")

// TestExplain: every code has a page.
func TestExplain(t *testing.T) {
	for _, c := range codes.Table {
		var b strings.Builder
		if err := c.Explain(&b); err != nil || !strings.HasPrefix(b.String(), c.Name+" ("+c.Severity()+"): ") || strings.Contains(b.String(), "§") {
			t.Errorf("%s: %v\n%s", c.Name, err, b.String())
		}
	}
}
