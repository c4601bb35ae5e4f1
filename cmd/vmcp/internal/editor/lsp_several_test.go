package editor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const several = `
RATE = 100

tool(
    name = "till_refund",
    description = "Refunds",
    parameters = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    entry = "refund",
)
tool(
    name = "till_charge",
    description = "Charges.\nIn cents.",
    parameters = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]},
    entry = "charge",
)

def refund(params):
    """Gives the money back."""
    return {"order": params["order"]}

def charge(params):
    total = params["cents"] * RATE
    return call_tool("till_refund", {"order": str(total)})

def both(a, b):
    return refund(a) + charge(b)
`

// what opens the file with a mark, and sends a request about its position.
func (e *editor) what(method, marked string, result any) {
	e.Helper()
	name, text := "tools/several.star", strings.ReplaceAll(marked, "‸", "")
	if _, open := e.text[name]; open {
		e.versions[name] = 0
		e.change(name, text, 2)
	} else if err := os.WriteFile(filepath.Join(e.dir, name), nil, 0o600); err != nil {
		e.Fatal(err)
	} else {
		e.open(name, text)
	}
	e.checked(name, 1)
	e.call("textDocument/"+method, e.at(name, marked), result)
}

func marked(at string) string {
	before, after, _ := strings.Cut(at, "‸")
	return strings.Replace(several, before+after, at, 1)
}

func TestSeveralToolsOfAFile(t *testing.T) {
	e := edit(t)
	var where location
	e.what("definition", marked(`entry = "ref‸und"`), &where)
	if have := fmt.Sprint(where.Range.Start); have != "{16 4}" {
		t.Errorf("the function of a tool is at %s, want {16 4}", have)
	}
	if problems := e.problems["tools/several.star"]; len(problems) != 1 || problems[0].Code != "unused" {
		t.Errorf("problems %+v of a correct file, want one of both alone", problems)
	}
	for at, want := range map[string]string{
		`entry = "ref‸und"`:         "def refund(params)",
		`call_tool("till_ref‸und"`:  "**till_refund**",
		`name = "till_cha‸rge"`:     "**till_charge**",
		`total = par‸ams["cents"]`:  "cents",
		`"order": par‸ams["order"]`: "order",
	} {
		var about hover
		e.what("hover", marked(at), &about)
		if !strings.Contains(about.Contents.Value, want) {
			t.Errorf("hover at %s says %q, want %s", at, about.Contents.Value, want)
		}
	}
	e.what("definition", marked(`call_tool("till_ref‸und"`), &where)
	if have := fmt.Sprint(where.Range.Start); have != "{4 4}" {
		t.Errorf("the tool is declared at %s, want {4 4}", have)
	}
	var list completionList
	e.what("completion", marked(`entry = "cha‸rge"`), &list)
	var labels []string
	for _, item := range list.Items {
		labels = append(labels, item.Label)
	}
	if !slices.Equal(labels, []string{"charge"}) {
		t.Errorf("as the function of a tool %q are offered, want charge", labels)
	}
	e.what("completion", strings.Replace(several, `entry = "charge"`, `entry = "‸"`, 1), &list)
	if len(list.Items) != 2 {
		t.Errorf("%+v are offered, want the functions of one parameter", list.Items)
	}
	e.what("completion", strings.Replace(several, `params["cents"]`, `params["‸"]`, 1), &list)
	if len(list.Items) != 1 || list.Items[0].Label != "cents" {
		t.Errorf("%+v are offered of the arguments of the second tool, want cents", list.Items)
	}
}

func TestOutline(t *testing.T) {
	e := edit(t)
	var all []symbol
	e.what("documentSymbol", "‸"+several, &all)
	var lines []string
	for _, s := range all {
		lines = append(lines, fmt.Sprintf("%d %s %q %d:%d-%d", s.Kind, s.Name, s.Detail, s.Selection.Start.Line, s.Selection.Start.Character, s.Range.End.Line))
	}
	want := []string{
		`13 RATE "" 1:0-1`, `11 till_refund "Refunds" 4:4-8`, `11 till_charge "Charges." 10:4-14`,
		`12 refund "refund(params)" 16:4-18`, `12 charge "charge(params)" 20:4-22`, `12 both "both(a, b)" 24:4-25`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the outline is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	e.what("documentSymbol", "‸def run(:", &all)
	if len(all) != 0 {
		t.Errorf("of a text that cannot be parsed: %+v", all)
	}
}
