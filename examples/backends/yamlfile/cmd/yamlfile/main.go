// Command yamlfile serves get and set in YAML files as MCP tools; see package yamlfile.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
	"github.com/vmcp-dev/vmcp/examples/backends/yamlfile"
)

func main() { toolserver.Run(yamlfile.Main) }
