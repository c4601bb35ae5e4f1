// Command sqlite serves a SQLite database as MCP tools; see package sqlite.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
	"github.com/vmcp-dev/vmcp/examples/backends/sqlite"
)

func main() { toolserver.Run(sqlite.Main) }
