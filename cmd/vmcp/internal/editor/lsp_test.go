package editor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// editor is the client of a server.
type editor struct {
	testing.TB
	dir  string
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
	id   int
	text map[string]string // of open files
	// problems are the last diagnostics, by file and version.
	problems map[string][]diagnostic
	versions map[string]int
}

// edit starts a session in a copy of the example shop.
func edit(t testing.TB) *editor {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/shop")); err != nil {
		t.Fatal(err)
	}
	fromEditor, in := io.Pipe()
	out, toEditor := io.Pipe()
	e := &editor{TB: t, dir: dir, in: in, out: bufio.NewReader(out), done: make(chan error, 1), text: map[string]string{}, problems: map[string][]diagnostic{}, versions: map[string]int{}}
	go func() {
		err := RunLSP(context.Background(), fromEditor, toEditor, LSPOptions{Version: "test", Log: func(m string) { t.Error(m) }})
		_ = toEditor.Close()
		e.done <- err
	}()
	t.Cleanup(func() { _ = in.Close(); _ = out.Close() })
	var info struct{ ServerInfo struct{ Name string } }
	e.call("initialize", map[string]any{"capabilities": map[string]any{}}, &info)
	if info.ServerInfo.Name != "vmcp" {
		t.Fatalf("initialize answers %v", info)
	}
	e.notify("initialized", map[string]any{})
	return e
}

func (e *editor) send(m map[string]any) {
	e.Helper()
	m["jsonrpc"] = "2.0"
	content, err := json.Marshal(m)
	if err != nil {
		e.Fatal(err)
	}
	if _, err := fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(content), content); err != nil {
		e.Fatal(err)
	}
}

func (e *editor) notify(method string, params any) {
	e.Helper()
	e.send(map[string]any{"method": method, "params": params})
}

// receive reads the next message; diagnostics are kept.
func (e *editor) receive() (id int, result json.RawMessage, err error) {
	e.Helper()
	content, err := readMessage(e.out)
	if err != nil {
		e.Fatal(err)
	}
	var m struct {
		ID     *int
		Method string
		Params publishParams
		Result json.RawMessage
		Error  *rpcError
	}
	if err := json.Unmarshal(content, &m); err != nil {
		e.Fatalf("%s: %v", content, err)
	}
	if m.Method == "textDocument/publishDiagnostics" {
		name, _ := filepath.Rel(e.dir, pathOf(m.Params.URI))
		e.problems[name] = m.Params.Diagnostics
		if m.Params.Version != nil {
			e.versions[name] = *m.Params.Version
		}
		return 0, nil, nil
	}
	if m.Error != nil {
		return *m.ID, nil, m.Error
	}
	return *m.ID, m.Result, nil
}

func (e *editor) try(method string, params any, result any) error {
	e.Helper()
	e.id++
	sent := make(chan struct{})
	go func() { defer close(sent); e.send(map[string]any{"id": e.id, "method": method, "params": params}) }()
	defer func() { <-sent }()
	for {
		id, raw, err := e.receive()
		if id == 0 {
			continue
		}
		if id != e.id {
			e.Fatalf("an answer to %d, want %d", id, e.id)
		}
		if err == nil && result != nil {
			err = json.Unmarshal(raw, result)
		}
		return err
	}
}

func (e *editor) call(method string, params any, result any) {
	e.Helper()
	if err := e.try(method, params, result); err != nil {
		e.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) uri(name string) string { return uriOf(filepath.Join(e.dir, name)) }

// open opens a file with a text that is not saved.
func (e *editor) open(name, text string) {
	e.Helper()
	e.text[name] = text
	e.versions[name] = 0
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri(name), "languageId": "starlark", "version": 1, "text": text}})
}

// change replaces the text of an open file.
func (e *editor) change(name, text string, version int) {
	e.Helper()
	e.text[name] = text
	e.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": e.uri(name), "version": version}, "contentChanges": []any{map[string]any{"text": text}}})
}

// checked waits for the problems of a version of a file.
func (e *editor) checked(name string, version int) []string {
	e.Helper()
	for e.versions[name] < version {
		e.receive()
	}
	out := []string{}
	for _, d := range e.problems[name] {
		out = append(out, fmt.Sprintf("%d:%d-%d:%d %s", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Line, d.Range.End.Character, d.Code))
	}
	return out
}

// at are the params for the position of a mark, ‸, in the text of a file.
func (e *editor) at(name, text string) map[string]any {
	e.Helper()
	before, _, ok := strings.Cut(text, "‸")
	if !ok {
		e.Fatalf("no mark in %q", text)
	}
	p := newText(before).all().End
	return map[string]any{"textDocument": map[string]any{"uri": e.uri(name)}, "position": p}
}

// completes opens a text with a mark and returns the completions there.
func (e *editor) completes(name, marked string) []string {
	e.Helper()
	text := strings.ReplaceAll(marked, "‸", "")
	if _, open := e.text[name]; open {
		e.change(name, text, 2)
	} else {
		e.open(name, text)
	}
	var list completionList
	e.call("textDocument/completion", e.at(name, marked), &list)
	var labels []string
	for _, item := range list.Items {
		labels = append(labels, item.Label)
	}
	return labels
}

const refund = `tool(
    name = "refund",
    description = "Refunds an order",
    parameters = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
)

load("money.star", "to_cents")

def run(params):
    order = call_tool("shop_get_order", {"id": params["order"]})
    BODY
    return None
`

func body(text string) string { return strings.Replace(refund, "BODY", text, 1) }

func TestDiagnostics(t *testing.T) {
	e := edit(t)
	e.open("tools/refund.star", body(`print("é☃😀", order["state"], to_cents(1))`))
	if got, want := e.checked("tools/refund.star", 1), []string{"10:24-10:31 result-field"}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q, in units of UTF-16", got, want)
	}
	e.change("tools/refund.star", body(`print(order["status"], to_cents(1))`), 2)
	if got := e.checked("tools/refund.star", 2); len(got) > 0 {
		t.Errorf("problems %q of a correct script", got)
	}
	e.change("tools/refund.star", body(`print(order["status"`), 3)
	if got := e.checked("tools/refund.star", 3); len(got) != 1 || !strings.HasSuffix(got[0], " syntax") {
		t.Errorf("problems %q of a broken script", got)
	}
	// Other files load the unsaved text of a library.
	e.open("lib/money.star", "def in_cents(total):\n    return int(total * 100)\n")
	e.change("tools/refund.star", body(`print(order["status"], to_cents(1))`), 4)
	e.checked("lib/money.star", 1)
	if got := e.checked("tools/refund.star", 4); len(got) != 1 || !strings.HasSuffix(got[0], " load") {
		t.Errorf("problems %q, want one of load", got)
	}
	// Inline scripts have their positions in the YAML.
	yaml, err := os.ReadFile(filepath.Join(e.dir, "vmcp.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(yaml) + "scriptedTools:\n  - name: one\n    description: d\n    script: |\n      def run(params):\n          return nothing\n"
	e.open("vmcp.yaml", text)
	lines := strings.Count(text, "\n")
	if got, want := e.checked("vmcp.yaml", 1), []string{fmt.Sprintf("%d:17-%[1]d:24 undefined", lines-1)}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

func TestCompletionLsp(t *testing.T) {
	e := edit(t)
	e.open("tools/refund.star", body(`pass`))
	e.checked("tools/refund.star", 1)
	for _, tt := range []struct{ text, want string }{
		{`call_tool("shop_‸`, "shop_get_order shop_refund"},
		{`call_tool("shop_‸")`, "shop_get_order shop_refund"},
		{`call_tool("shop_refund", {"‸`, "cents order reason"},
		{`call_tool("shop_refund", {"order": 1, "‸": 2})`, "cents reason"},
		{`order["‸`, "buyer coupon id status total"},
		{`order["st‸"]`, "status"},
		{`order["buyer"]["‸`, "email id"},
		{`call_tool("shop_get_order", {})["to‸`, "total"},
		{`order.ge‸`, "get"},
		{`time.no‸`, "now"},
		{`to_c‸`, "to_cents"},
		{`retry(to_cents, max_a‸`, "max_attempts = "},
		{`# call_tool("‸`, ""},
		{`x = "text‸`, ""},
	} {
		if got := strings.Join(e.completes("tools/refund.star", body(tt.text)), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	yaml, err := os.ReadFile(filepath.Join(e.dir, "vmcp.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	inline := string(yaml) + "scriptedTools:\n  - name: one\n    description: d\n    script: |\n      def run(params):\n          return call_tool(\"shop_g‸\n"
	if got := e.completes("vmcp.yaml", inline); !slices.Equal(got, []string{"shop_get_order"}) {
		t.Errorf("in YAML: %q", got)
	}
	if got := e.completes("vmcp.yaml", "na‸me: x\n"+inline); len(got) > 0 {
		t.Errorf("outside of scripts: %q", got)
	}
}

func TestHoverAndDefinition(t *testing.T) {
	e := edit(t)
	e.open("tools/refund.star", body(`print(order, to_cents(1))`))
	e.checked("tools/refund.star", 1)
	for _, tt := range []struct{ mark, want string }{
		{`order = call_‸tool(`, "call_tool(name, args={}, timeout=None)"},
		{`"shop_get_‸order"`, "An order with its buyer"},
		{`print(ord‸er,`, "order"},
	} {
		plain := strings.ReplaceAll(tt.mark, "‸", "")
		var h *hover
		e.call("textDocument/hover", e.at("tools/refund.star", strings.Replace(e.text["tools/refund.star"], plain, tt.mark, 1)), &h)
		if h == nil || !strings.Contains(h.Contents.Value, tt.want) {
			t.Errorf("hover at %s: %v, want %q", tt.mark, h, tt.want)
		}
	}
	for _, tt := range []struct{ mark, want string }{
		{`to_ce‸nts(1)`, "lib/money.star:0:4"},
		{`"to_ce‸nts"`, "lib/money.star:0:4"},
		{`"mon‸ey.star"`, "lib/money.star:0:0"},
		{`print(ord‸er,`, "tools/refund.star:9:4"},
		{`pri‸nt(`, ""},
	} {
		plain := strings.ReplaceAll(tt.mark, "‸", "")
		var at *location
		e.call("textDocument/definition", e.at("tools/refund.star", strings.Replace(e.text["tools/refund.star"], plain, tt.mark, 1)), &at)
		got := ""
		if at != nil {
			name, _ := filepath.Rel(e.dir, pathOf(at.URI))
			got = fmt.Sprintf("%s:%d:%d", filepath.ToSlash(name), at.Range.Start.Line, at.Range.Start.Character)
		}
		if got != tt.want {
			t.Errorf("definition of %s: %q, want %q", tt.mark, got, tt.want)
		}
	}
}

// applied is a text with edits applied.
func applied(text string, edits []textEdit) string {
	t := newText(text)
	slices.SortFunc(edits, func(a, b textEdit) int { return t.offset(b.Range.Start) - t.offset(a.Range.Start) })
	for _, one := range edits {
		t = t.changed(one.Range, one.NewText)
	}
	return t.src
}

func TestRename(t *testing.T) {
	e := edit(t)
	src := "def f(a, b = 1):\n    total = a\n    for x in [a]:\n        total += x\n    g = lambda: total + len(\"😀\") + total\n    return [total for total in [g]]\n\ntotal = 3\nf(1, b = 2)\n"
	e.open("lib/money.star", src)
	for _, tt := range []struct{ mark, to, want string }{
		{"total‸ = a", "sum", strings.NewReplacer("    total = a", "    sum = a", "total += x", "sum += x", "lambda: total + len(\"😀\") + total", "lambda: sum + len(\"😀\") + sum").Replace(src)},
		{"[to‸tal for", "t", strings.Replace(src, "[total for total in", "[t for t in", 1)},
		{"for x‸ in", "a", "f has a a already"},
		{"for x‸ in", "if", `"if" is no name`},
		{"\ntotal‸ = 3", "y", "total belongs to the file: only names inside of a function can be renamed"},
		{"b‸ = 1)", "c", "b is a parameter, and a call names it"},
		{"f(a‸, b", "c", "a is a parameter of f, which other files may load: their calls may name it"},
		{"le‸n(", "c", "only local names can be renamed"},
	} {
		plain := strings.ReplaceAll(tt.mark, "‸", "")
		params := e.at("lib/money.star", strings.Replace(src, plain, tt.mark, 1))
		params["newName"] = tt.to
		var w workspaceEdit
		err := e.try("textDocument/rename", params, &w)
		got := applied(src, w.Changes[e.uri("lib/money.star")])
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("rename %s to %s:\n%s\nwant\n%s", tt.mark, tt.to, got, tt.want)
		}
	}
}

func TestFormattingAndFixes(t *testing.T) {
	e := edit(t)
	e.open("tools/refund.star", body(`print( order["stauts"] , to_cents(1))`))
	e.checked("tools/refund.star", 1)
	var edits []textEdit
	e.call("textDocument/formatting", map[string]any{"textDocument": map[string]any{"uri": e.uri("tools/refund.star")}}, &edits)
	if got := applied(e.text["tools/refund.star"], edits); !strings.Contains(got, "    print(order[\"stauts\"], to_cents(1))\n") {
		t.Errorf("formatted:\n%s", got)
	}
	var actions []codeAction
	e.call("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": e.uri("tools/refund.star")}, "range": newText(e.text["tools/refund.star"]).all()}, &actions)
	if len(actions) != 1 {
		t.Fatalf("%d actions: %v", len(actions), actions)
	}
	if got := applied(e.text["tools/refund.star"], actions[0].Edit.Changes[e.uri("tools/refund.star")]); !strings.Contains(got, `order["status"]`) {
		t.Errorf("%s makes\n%s", actions[0].Title, got)
	}
	e.change("tools/refund.star", "x = (", 2)
	e.call("textDocument/formatting", map[string]any{"textDocument": map[string]any{"uri": e.uri("tools/refund.star")}}, &edits)
	if len(edits) != 0 {
		t.Errorf("a broken text is formatted: %v", edits)
	}
}

func TestProtocol(t *testing.T) {
	e := edit(t)
	var refused *rpcError
	if err := e.try("textDocument/nothing", map[string]any{}, nil); !errors.As(err, &refused) || refused.Code != codeNoMethod {
		t.Errorf("an unknown method: %v", err)
	}
	if err := e.try("textDocument/hover", map[string]any{"textDocument": map[string]any{"uri": "file:///nowhere.star"}}, nil); !errors.As(err, &refused) || refused.Code != codeInvalidParams {
		t.Errorf("a document that is not open: %v", err)
	}
	if err := e.try("textDocument/hover", []int{1}, nil); !errors.As(err, &refused) || refused.Code != codeInvalidParams {
		t.Errorf("other params: %v", err)
	}
	e.call("shutdown", nil, nil)
	e.notify("exit", nil)
	if err := <-e.done; err != nil {
		t.Errorf("the session ends with %v", err)
	}
	for _, header := range []string{"Content-Length: x\r\n\r\n", "Content-Length: -1\r\n\r\n", "\r\n", "Content-Length: 999999999999\r\n\r\n", strings.Repeat("a", 10000), strings.Repeat("A: b\r\n", 30), "Content-Length: 5\r\n\r\n{}"} {
		if err := RunLSP(t.Context(), strings.NewReader(header), io.Discard, LSPOptions{Log: func(string) {}}); err == nil {
			t.Errorf("%.40q is a message", header)
		}
	}
	if err := RunLSP(t.Context(), strings.NewReader(""), io.Discard, LSPOptions{}); !errors.Is(err, errNoShutdown) {
		t.Errorf("an editor that is gone: %v", err)
	}
}

// TestRandomEdits: every request is answered whatever is typed, and at the end the problems are those of the text.
func TestRandomEdits(t *testing.T) {
	e := edit(t)
	src := body(`print(order["status"], to_cents(1))`)
	e.open("tools/refund.star", src)
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"(", ")", "[", "]", "{", "}", `"`, "'", ".", ",", ":", "=", "\n", "    ", "order", `["`, "call_tool(\"", "def f(x):\n", "😀", "é", "\r\n", "#", "lambda", "\x00", "while", `"""`, "load(", "\\", "\t"}
	methods := []string{"completion", "hover", "definition", "prepareRename", "rename", "formatting", "codeAction"}
	now := newText(src)
	n := testmode.Count(300, 10_000)
	for i := range n {
		p := position{r.IntN(len(now.starts) + 1), r.IntN(40)}
		to := p
		if r.IntN(3) == 0 {
			to.Character += r.IntN(8)
		}
		with := pieces[r.IntN(len(pieces))]
		if r.IntN(40) == 0 || len(now.src) > 20_000 {
			p, to, with = position{}, now.all().End, src
		}
		change := textRange{p, to}
		now = now.changed(change, with)
		e.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": e.uri("tools/refund.star"), "version": i + 2}, "contentChanges": []any{map[string]any{"range": change, "text": with}}})
		params := map[string]any{"textDocument": map[string]any{"uri": e.uri("tools/refund.star")}, "position": p, "range": change, "newName": "y"}
		err := e.try("textDocument/"+methods[i%len(methods)], params, nil)
		var refused *rpcError
		if err != nil && (!errors.As(err, &refused) || refused.Code != codeFailed) {
			t.Fatalf("%s after %q: %v", methods[i%len(methods)], now.src, err)
		}
	}
	e.change("tools/refund.star", body(`print("é☃😀", order["state"], to_cents(1))`), n+2)
	if got, want := e.checked("tools/refund.star", n+2), []string{"10:24-10:31 result-field"}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

// BenchmarkKeystroke types into a script of 500 lines and asks for completion; p95 is the 95th percentile of the
// time from the change to the response, problems that to the diagnostics.
func BenchmarkKeystroke(b *testing.B) {
	e := edit(b)
	var lines strings.Builder
	for i := range 120 {
		fmt.Fprintf(&lines, "def step_%d(id):\n    order = call_tool(\"shop_get_order\", {\"id\": id})\n    return order[\"total\"] + %d\n\n", i, i)
	}
	src := lines.String() + body(`print(order["status"], to_cents(1))`)
	e.open("tools/refund.star", src)
	e.checked("tools/refund.star", 1)
	var answers, problems []time.Duration
	version := 1
	for b.Loop() {
		version++
		marked := strings.Replace(src, "print(order[\"status\"]", fmt.Sprintf("print(%d, order[\"‸status\"]", version), 1)
		begun := time.Now()
		e.change("tools/refund.star", strings.Replace(marked, "‸", "", 1), version)
		e.call("textDocument/completion", e.at("tools/refund.star", marked), new(completionList))
		answers = append(answers, time.Since(begun))
		e.checked("tools/refund.star", version)
		problems = append(problems, time.Since(begun))
	}
	for unit, list := range map[string][]time.Duration{"p95-ms": answers, "p95-problems-ms": problems} {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)*95/100].Microseconds())/1000, unit)
	}
}

// all is the range of the whole text.
func (t *text) all() textRange {
	last := len(t.starts) - 1
	return textRange{End: position{Line: last, Character: length16(t.src[t.starts[last]:])}}
}
