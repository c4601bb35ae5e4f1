// Command postgres serves a PostgreSQL database as MCP tools; see package postgres.
package main

import (
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
	"github.com/vmcp-dev/vmcp/examples/backends/postgres"
)

func main() { toolserver.Run(postgres.Main) }
