package author_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
)

func effect(name, args, result string) cases.Effect {
	return cases.Effect{Key: "0", Kind: "call", Name: name, Args: json.RawMessage(args), Result: json.RawMessage(result)}
}

// connect connects a client to a server of cases.
func connect(t *testing.T, all []*cases.Case, o author.FakeOptions) *mcp.ClientSession {
	t.Helper()
	s, err := author.New(all, o)
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), in, out) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// ask is the result of a call, on one line.
func ask(t *testing.T, s *mcp.ClientSession, tool, args string) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	if r.IsError {
		b.WriteString("error: ")
	}
	for _, c := range r.Content {
		b.WriteString(c.(*mcp.TextContent).Text)
	}
	if r.StructuredContent != nil {
		data, _ := json.Marshal(r.StructuredContent)
		b.Write(data)
	}
	return b.String()
}

func TestWhatWasRecordedIsAnswered(t *testing.T) {
	f := lock.New()
	for own, schema := range map[string]string{"get": `{"type":"object","properties":{"id":{"type":"string"}}}`, "odd": `{"type":"array"}`, "unused": `{"type":"object"}`} {
		if err := f.Add(lock.Name{Kind: lock.Tool, Backend: "shop", Own: own}, []byte(`{"name":"`+own+`","description":"from the lock","inputSchema":`+schema+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	failing := effect("shop_odd", `{}`, ``)
	failing.Failure = &cases.Failure{Kind: "timeout", Message: "no answer within 1s"}
	all := []*cases.Case{{
		Tool: "refund", Arguments: json.RawMessage(`{"order":"A1"}`), Output: json.RawMessage(`{"n":1}`),
		Effects: []cases.Effect{
			effect("shop_get", `{"id":"A1"}`, `{"content":[{"type":"text","text":"first"}]}`),
			effect("shop_get", `{"id":"A1"}`, `{"content":[{"type":"text","text":"second"}]}`),
			effect("shop_get", `{"id":"A2","n":9007199254740993}`, `{"content":[],"structuredContent":{"n":1}}`),
			failing,
			{Key: "4", Kind: "log", Name: "shop_get"},
		},
	}}
	s := connect(t, all, author.FakeOptions{Lock: f})
	for _, tt := range []struct{ tool, args, want string }{
		{"shop_get", `{"id":"A1"}`, "first"},
		{"shop_get", `{"id":"A1"}`, "second"},
		{"shop_get", `{"id":"A1"}`, "second"},
		{"shop_get", `{"n":9007199254740993,"id":"A2"}`, `{"n":1}`},
		{"shop_get", `{"n":9007199254740992,"id":"A2"}`, `error: shop_get: no call with these arguments was recorded; the nearest differs: /n: 9007199254740993 → 9007199254740992`},
		{"shop_odd", `{}`, "error: timeout: no answer within 1s"},
		{"refund", `{"order":"A1"}`, `{"n":1}{"n":1}`},
	} {
		if have := ask(t, s, tt.tool, tt.args); have != tt.want {
			t.Errorf("%s(%s) = %s, want %s", tt.tool, tt.args, have, tt.want)
		}
	}
	descriptions := map[string]string{}
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		descriptions[tool.Name] = tool.Description
	}
	if len(descriptions) != 3 || descriptions["shop_get"] != "from the lock" || descriptions["shop_odd"] != "recorded calls of shop_odd" {
		t.Errorf("tools %q", descriptions)
	}
}

func TestAServerStandsInForABackend(t *testing.T) {
	f := lock.New()
	for _, own := range []string{"get", "unused"} {
		if err := f.Add(lock.Name{Kind: lock.Tool, Backend: "shop", Own: own}, []byte(`{"name":"`+own+`","inputSchema":{"type":"object"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &config.Config{Aggregation: config.Aggregation{
		ConflictResolutionConfig: config.ConflictResolutionConfig{PrefixFormat: "{workload}-"},
		Tools:                    []config.WorkloadTools{{Workload: "shop", Overrides: map[string]config.ToolOverride{"get": {Name: "fetch"}}}},
	}}
	all := []*cases.Case{{Tool: "refund", Effects: []cases.Effect{effect("shop-fetch", `{}`, `{"content":[{"type":"text","text":"got"}]}`), effect("other_get", `{}`, `{}`)}}}
	s := connect(t, all, author.FakeOptions{Lock: f, Config: cfg, Backend: "shop"})
	if have := ask(t, s, "get", `{}`); have != "got" {
		t.Errorf("get: %s", have)
	}
	if have := ask(t, s, "unused", `{}`); have != "error: unused: no call was recorded" {
		t.Errorf("unused: %s", have)
	}
	if err := author.CheckBackend(f, "shp"); err == nil || !strings.Contains(err.Error(), `no backend "shp"`) {
		t.Error(err)
	}
	if _, err := author.New([]*cases.Case{{Tool: "x"}}, author.FakeOptions{Backend: "shop"}); err == nil {
		t.Error("a server without tools")
	}
}
