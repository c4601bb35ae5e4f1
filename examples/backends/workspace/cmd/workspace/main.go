// Command workspace serves files, SQL and fetch as MCP tools; see package workspace.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
	"github.com/vmcp-dev/vmcp/examples/backends/workspace"
)

func main() { toolserver.Run(workspace.Main) }
