//go:build linux

package isolate_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/proxy/isolate"
	"github.com/vmcp-dev/vmcp/script"
)

// The script is executed in a worker process; the tool that it calls is called by this one. A worker is this program
// again, so main, or here TestMain, calls ServeIfWorker first of all.
func Example() {
	p, err := script.Compile(script.File{
		Name:   "greet.star",
		Source: []byte("def run(params):\n    return call_tool(\"greet\", {\"name\": params[\"name\"]})[\"text\"]\n"),
	}, script.Options{Builtins: builtins.All()})
	if err != nil {
		fmt.Println(err)
		return
	}
	workers, err := isolate.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()
	res, err := p.Run(context.Background(), script.RunOptions{
		Args:      json.RawMessage(`{"name": "web"}`),
		Host:      &scripttest.Host{Tools: map[string]scripttest.Tool{"greet": scripttest.Says("hello")}},
		Isolation: workers,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Structured))
	// Output: "hello"
}
