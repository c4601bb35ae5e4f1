package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + a.Name}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()

	set := backends.NewSet(backends.Options{})
	defer set.Close()
	if err := set.Apply(&config.Config{Backends: []config.Backend{{Name: "greeter", URL: web.URL}}}); err != nil {
		fmt.Println(err)
		return
	}
	// A call waits for a backend that is connecting.
	resp, err := set.All()[0].Call(context.Background(), &backends.Request{
		Method: "tools/call", Params: json.RawMessage(`{"name":"greet","arguments":{"name":"you"}}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Close()
	fmt.Println(string(jsonscan.Get(resp.Result, "content")))
	// Output: [{"type":"text","text":"hello you"}]
}
