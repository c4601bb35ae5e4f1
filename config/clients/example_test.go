package clients_test

import (
	"cmp"
	"fmt"

	"github.com/vmcp-dev/vmcp/config/clients"
)

// The servers of a client's configuration. A variable of the client is one of vmcp.yaml's.
func ExampleRead() {
	f, err := clients.Read(".vscode/mcp.json", []byte(`{
  // comments are allowed
  "servers": {
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]},
    "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "Bearer ${env:TICKETS_TOKEN}"}}
  }
}`), clients.Options{Home: "/home/ann", Workspace: "/home/ann/src"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range f.Servers {
		fmt.Println(s.Pos.Line, s.Name, cmp.Or(s.Command, s.URL))
	}
	fmt.Println(f.Servers[1].Headers["Authorization"])
	// Output:
	// 4 files npx
	// 5 tickets https://tickets.example.com/mcp
	// Bearer ${TICKETS_TOKEN}
}
