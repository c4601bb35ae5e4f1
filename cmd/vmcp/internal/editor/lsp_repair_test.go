package editor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// TestTextsThatNeverParsed: completion works in a text that never was without a syntax error, and in a file
// that does not exist yet.
func TestTextsThatNeverParsed(t *testing.T) {
	const text = `tool(name = "fresh", description = "F.", parameters = {"type": "object", "properties": {"id": {"type": "string"}}})

def helper(x):
    return x +

def run(params):
    order = call_tool("shop_get_order", {"id": params["id"]})
    for one in [order]:
        ‸
    done = {"a": 1
    return order
`
	for _, name := range []string{"tools/refund.star", "tools/fresh.star"} {
		for _, tt := range []struct{ typed, want string }{
			{`x = order["‸`, "buyer coupon id status total"},
			{`x = one["‸"]`, "buyer coupon id status total"},
			{`x = params["‸`, "id"},
			{`x = order["buyer"]["‸`, "email id"},
			{`x = call_tool("shop_refund", {"‸`, "cents order reason"},
		} {
			e := edit(t)
			marked := strings.Replace(text, "‸", tt.typed, 1)
			e.open(name, strings.ReplaceAll(marked, "‸", ""))
			e.checked(name, 1)
			got := e.completes(name, marked)
			if slices.Sort(got); strings.Join(got, " ") != tt.want {
				t.Errorf("%s, %s: %q, want %s", name, tt.typed, got, tt.want)
			}
		}
	}
}

// TestTestFilesHaveTheirOwnModule: the module testing exists in files of tests only.
func TestTestFilesHaveTheirOwnModule(t *testing.T) {
	e := edit(t)
	const marked = "def test_a():\n    testing.ans‸\n"
	e.open("tools/refund_test.star", strings.Replace(marked, "‸", "", 1))
	e.checked("tools/refund_test.star", 1)
	if got := e.completes("tools/refund_test.star", marked); !slices.Equal(got, []string{"answer"}) {
		t.Errorf("testing.ans completes to %q", got)
	}
	e.checked("tools/refund_test.star", 2)
	e.open("tools/refund.star", "def run(params):\n    testing.ans\n")
	e.checked("tools/refund.star", 1)
	if got := e.completes("tools/refund.star", "def run(params):\n    testing.ans‸\n"); len(got) > 0 {
		t.Errorf("in a tool testing.ans completes to %q", got)
	}
}

// TestNothingIsKnownAtFirst: before the first check of the project, a response is marked as incomplete.
func TestNothingIsKnownAtFirst(t *testing.T) {
	src := newText("def run(params):\n    return cal\n")
	path := filepath.Join(t.TempDir(), "a.star")
	p := &project{script: path}
	s := &server{docs: map[string]*doc{}, all: map[string]*project{path: p}}
	d := &doc{uri: uriOf(path), path: path, text: src, project: p}
	list, err := s.complete(d, placeParams{Position: position{1, 14}})
	if err != nil || !list.Incomplete || len(list.Items) == 0 {
		t.Errorf("complete: %+v, %v; want names, and that there are more", list, err)
	}
	p.program = p.check(catalog.Overlay{path: []byte(src.src)}, "", nil).program
	if list, err = s.complete(d, placeParams{Position: position{1, 14}}); err != nil || list.Incomplete {
		t.Errorf("complete: %+v, %v; want that this is all", list, err)
	}
}
