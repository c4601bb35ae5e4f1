package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
)

func ExampleDial() {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "example"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + a.Name}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()

	e, err := client.Dial(ctx, client.Options{URL: web.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	result, err := e.Call(ctx, client.Call{Name: "greet", Arguments: json.RawMessage(`{"name":"you"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Content {
		fmt.Println(client.ContentText(c))
	}
	// Output: hello you
}
