// Command http serves requests to the hosts of an allow-list as MCP tools; see package http.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/http"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

func main() { toolserver.Run(http.Main) }
