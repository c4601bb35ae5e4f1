package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoIn struct {
	Value any             `json:"value"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

type echoOut struct {
	Value any             `json:"value"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

// echo serves one tool that returns its arguments, or refuses.
func echo(t *testing.T) *mcp.ClientSession {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	Add(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, in echoIn) (*echoOut, error) {
		switch in.Value {
		case "coded":
			return nil, Errorf("full", "the shelf is full")
		case "plain":
			return nil, errors.New("something else")
		}
		return &echoOut{in.Value, in.Raw}, nil
	})
	near, far := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close(); ss.Wait() })
	return cs
}

func TestArgumentsKeepTheirDigits(t *testing.T) {
	const args = `{"value":9007199254740993,"raw":{"b":1.0,"a":12345678901234567890}}`
	r, err := echo(t).CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Content[0].(*mcp.TextContent).Text; got != args {
		t.Errorf("echo:\n got %s\nwant %s", got, args)
	}
}

// Clients on the TypeScript SDK v1 refuse a whole list over a schema of another type.
func TestSchemasAreOfObjects(t *testing.T) {
	tools, err := echo(t).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, schema := range map[string]any{"input": tools.Tools[0].InputSchema, "output": tools.Tools[0].OutputSchema} {
		if got := schema.(map[string]any)["type"]; got != "object" {
			t.Errorf("type of the %s schema: got %v, want object", what, got)
		}
		for name, property := range schema.(map[string]any)["properties"].(map[string]any) {
			if _, ok := property.(map[string]any); !ok {
				t.Errorf("property %s of the %s schema: got %v, want an object", name, what, property)
			}
		}
	}
}

func TestRefusalsHaveACode(t *testing.T) {
	cs := echo(t)
	for _, tt := range []struct{ args, want string }{
		{`{"value":"coded"}`, "full: the shelf is full"},
		{`{"value":"plain"}`, "failed: something else"},
		{`{}`, "bad_arguments: echo: "},
		{`{"value":1,"more":2}`, "bad_arguments: echo: "},
	} {
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(tt.args)})
		if err != nil {
			t.Fatal(err)
		}
		code, _, _ := strings.Cut(tt.want, ":")
		e, _ := r.StructuredContent.(map[string]any)["error"].(map[string]any)
		if text := r.Content[0].(*mcp.TextContent).Text; !r.IsError || !strings.HasPrefix(text, tt.want) || e["code"] != code {
			t.Errorf("echo(%s): got isError %v, %q, %v, want %q", tt.args, r.IsError, text, e, tt.want)
		}
	}
}

func TestServesHTTPUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- serveHTTP(ctx, mcp.NewServer(&mcp.Implementation{Name: "empty", Version: "1"}, nil), l)
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	cs, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + l.Addr().String() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cs.Ping(ctx, nil); err != nil {
		t.Error(err)
	}
	cs.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after the context ended: %v", err)
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	if l, err := listen("0.0.0.0:0"); err == nil {
		l.Close()
		t.Error("listen on all addresses: no error")
	}
}
