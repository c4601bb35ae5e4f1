package builtins_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// shop is a host with one tool.
type shop struct{ builtins.Host }

func (shop) CallTool(_ context.Context, name string, arguments json.RawMessage, _ builtins.CallOptions) (json.RawMessage, error) {
	if name != "shop.stock" {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: fmt.Sprintf("no tool %q", name)}
	}
	return json.RawMessage(`{"content": [], "structuredContent": {"left": 3}}`), nil
}

// A script calls the tools of its Host through the builtins.
func ExampleAll() {
	p, err := script.Compile(script.File{Name: "stock.star", Source: []byte(`
def run(params):
    return [call_tool("shop.stock", {"id": 7})["left"], try_call_tool("shop.sell", {}).kind]
`)}, script.Options{Builtins: builtins.All()})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := p.Run(context.Background(), script.RunOptions{Host: shop{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", res.Structured)
	// Output: [3,"not_found"]
}
