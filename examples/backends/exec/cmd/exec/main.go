// Command exec serves programs of an allow-list as an MCP tool; see package exec.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/exec"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

func main() { toolserver.Run(exec.Main) }
