package proxy_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

const shopStar = `
tool(
    name = "look", title = "Look", description = "Looks.",
    parameters = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    output = {"type": "object", "properties": {"seen": {"type": "string"}}, "required": ["seen"]},
    entry = "look",
)
tool(name = "pay", description = "Pays.", parameters = {"type": "object", "properties": {"cents": {"type": "integer", "default": 5}}}, limits = {"calls": 1}, entry = "pay")
tool(name = "hold", description = "Waits.")

def look(params):
    return {"seen": call_tool("shop_read", {"text": params["id"]})["text"]}

def pay(params):
    call_tool("shop_pay", {"text": str(params["cents"])})
    return call_tool("look", {"id": "paid %d" % params["cents"]})

def run(params):
    return {"says": call_tool("shop_wait", {"text": "old"})["text"]}
`

// shopServer has tools that read, write, and wait until released is closed.
func shopServer(waiting chan<- struct{}, released <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	says := func(before func()) mcp.ToolHandlerFor[echoArgs, any] {
		return func(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
			before()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
		}
	}
	closed := false
	mcp.AddTool(s, &mcp.Tool{Name: "shop_read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed}}, says(func() {}))
	mcp.AddTool(s, &mcp.Tool{Name: "shop_pay"}, says(func() {}))
	mcp.AddTool(s, &mcp.Tool{Name: "shop_wait"}, says(func() { waiting <- struct{}{}; <-released }))
	return s
}

// severalTools are the tools of an endpoint, as a client lists them.
func severalTools(t *testing.T, s *mcp.ClientSession) (names string, definitions map[string]string) {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	definitions = map[string]string{}
	var all []string
	for _, tool := range list.Tools {
		if strings.HasPrefix(tool.Name, "shop_") {
			continue
		}
		raw, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		all, definitions[tool.Name] = append(all, tool.Name), string(raw)
	}
	return strings.Join(all, " "), definitions
}

func TestSeveralToolsOfAFile(t *testing.T) {
	testmode.Parallel(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			testmode.Parallel(t)
			released, waiting := make(chan struct{}), make(chan struct{}, 1)
			dir := t.TempDir()
			write := func(text string) {
				if err := os.WriteFile(filepath.Join(dir, "shop.star"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(shopStar)
			cfg := &config.Config{Scripts: []string{dir}, Backends: []config.Backend{{Name: "shop", URL: sdkBackend(t, shopServer(waiting, released), true)}}}
			p, url := start(t, cfg)
			changed := make(chan struct{}, 10)
			s := connect(t, url, revision, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
			names, before := severalTools(t, s)
			if names != "look pay hold" {
				t.Fatalf("tools %s, want look pay hold", names)
			}
			for tool, want := range map[string]string{"look": `"readOnlyHint":true`, "pay": `"destructiveHint":true`} {
				if !strings.Contains(before[tool], want) {
					t.Errorf("%s is listed with the hints of the others: %s, want %s", tool, before[tool], want)
				}
			}
			call := func(name string, args any) string {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
				return text(t, r, err)
			}
			if have := call("look", map[string]any{"id": "a"}); have != `{"seen":"a"}` {
				t.Errorf("look: %s", have)
			}
			if have := call("look", map[string]any{"cents": 1}); !strings.Contains(have, "the arguments of look do not fit its parameters") {
				t.Errorf("look takes what pay takes: %s", have)
			}
			if have := call("pay", map[string]any{}); !strings.Contains(have, "limit reached: calls (1)") || !strings.Contains(have, "shop.star:16:21") {
				t.Errorf("pay does not have its own limits, in its place: %s", have)
			}

			ended := make(chan string)
			go func() { ended <- call("hold", map[string]any{}) }()
			<-waiting
			less := strings.Replace(shopStar, "tool(name = \"pay\"", "x = dict(name = \"pay\"", 1)
			write(strings.Replace(less, `"old"`, `"new"`, 1))
			if err := p.Apply(cfg); err != nil {
				t.Fatal(err)
			}
			<-changed
			names, after := severalTools(t, s)
			if names != "look hold" || after["look"] != before["look"] {
				t.Errorf("without pay: %s, look %s; want look hold, and look as it was: %s", names, after["look"], before["look"])
			}
			close(released)
			if have := <-ended; have != `{"says":"old"}` {
				t.Errorf("a call that was running ended with %s, not with the program that it began with", have)
			}
			if have := call("hold", map[string]any{}); have != `{"says":"new"}` {
				t.Errorf("hold: %s, want new", have)
			}
			write(shopStar)
			if err := p.Apply(cfg); err != nil {
				t.Fatal(err)
			}
			<-changed
			if names, after = severalTools(t, s); names != "look pay hold" || after["pay"] != before["pay"] {
				t.Errorf("with pay again: %s %s", names, after["pay"])
			}
		})
	}
}

func TestMistakesInFilesOfSeveralTools(t *testing.T) {
	const second = "\ntool(name='b', description='B.', entry='b')\n"
	for _, tt := range []struct{ name, text, want string }{
		{"two functions that are not there", "tool(name='a', description='A.', entry='aa')\ntool(name='b', description='B.', entry='bb')\ndef ab(p): return 1",
			"a.star:1:40: error: tool: entry: no function aa at the top level of this file; did you mean ab? [tool-declaration]\n" +
				"a.star:2:40: error: tool: entry: no function bb at the top level of this file; did you mean ab? [tool-declaration]"},
		{"both without entry", "tool(name='a', description='A.')\ntool(name='b', description='B.')\ndef run(p): return 1",
			`a.star:2:1: error: tool: b needs an entry, as in entry="b": run is the function of a above, and a file of several tools has one for each [tool-declaration]`},
		{"parameters of both", "tool(name='a', description='A.')" + second + "def run(): return 1\ndef b(p, q): return p + q",
			"a.star:3:5: error: run must take one argument, as in run(params): it has 0 [tool-declaration]\na.star:4:5: error: b must take one argument, as in b(params): it has 2 [tool-declaration]"},
		{"one name", "tool(name='b', description='A.')" + second + "def run(p): return 1\ndef b(p): return 2",
			"a.star:2:6: error: the tool b is also declared in a.star:1:6 [tool-duplicate]"},
		{"a schema of the second", "tool(name='a', description='A.')\ntool(name='b', description='B.', entry='b', parameters={'type': 'array'})\ndef run(p): return 1\ndef b(p): return 2",
			"a.star:2:45: error: tool.parameters: want type: object at the root of the schema, have array [tool-declaration]"},
		{"what a sibling takes", "tool(name='a', description='A.')\ntool(name='b', description='B.', entry='b', parameters={'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']})\ndef run(p): return call_tool('b', {'m': 1})\ndef b(p): return p['m']",
			"a.star:3:20: error: b needs the argument n [tool-contract]\na.star:4:20: error: the tool has no parameter m [parameter-unknown]"},
		{"a function by another way", "tool(name='a', description='A.', entry=run)\ndef run(p): return 1",
			"a.star:1:40: error: tool: entry: want the name of the function as a string: entry=\"run\" [tool-declaration]\na.star:1:40: error: undefined: run [undefined]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := checkFolder(t, config.Config{}, map[string]string{"a.star": tt.text}); got != tt.want {
				t.Errorf("problems:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}
