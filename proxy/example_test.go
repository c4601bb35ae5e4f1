package proxy_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// A proxy is an http.Handler; its configuration can be changed while it serves.
func Example() {
	cfg, err := config.Parse("vmcp.yaml", []byte(`
scriptedTools:
  - name: greet
    description: Says hello.
    parameters: {type: object, properties: {name: {type: string}}}
    script: |
      def run(args):
          return "hello " + args["name"]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := proxy.New(proxy.Options{})
	defer p.Close()
	if err := p.Apply(cfg); err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(p.Handler())
	defer web.Close()

	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "example"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"name": "you"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// "hello you"
}
