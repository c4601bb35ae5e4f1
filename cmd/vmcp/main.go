// Command vmcp serves many MCP servers as one, with scripted tools over them.
package main

import (
	"os"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
	"github.com/vmcp-dev/vmcp/proxy/isolate"
)

func main() {
	isolate.ServeIfWorker() // a worker of isolated scripts is this program again
	serve.FallBack()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
