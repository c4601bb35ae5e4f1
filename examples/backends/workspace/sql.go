package workspace

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

func (w *Workspace) addSQLTools(s *mcp.Server) {
	toolserver.Add(s, &mcp.Tool{
		Name: "sql_query", Title: "Query the database",
		Description: "Run one reading SQL statement (SELECT, VALUES, WITH, EXPLAIN) on the SQLite database. Mark values with ? and give them in params.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: hint(false)},
	}, w.db.Query)
	toolserver.Add(s, &mcp.Tool{
		Name: "sql_execute", Title: "Change the database",
		Description: "Run one writing SQL statement (INSERT, UPDATE, DELETE, CREATE TABLE, ...) on the SQLite database. Mark values with ? and give them in params.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: hint(true), OpenWorldHint: hint(false)},
	}, w.db.Execute)
}
