// Package sqlite is an MCP server over one SQLite database. Queries use a connection that cannot
// write, and no statement reaches another file.
//
//	go run ./examples/backends/sqlite/cmd/sqlite -db data.db -readonly
package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/sqlite"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Options of a server. File is required.
type Options struct {
	// File is the database. It is created when missing, unless ReadOnly.
	File string
	// ReadOnly leaves out the tool that writes.
	ReadOnly bool
	// Timeout bounds one statement. Default 10s.
	Timeout time.Duration
}

// Database serves one database.
type Database struct {
	db *sqlite.DB
	o  Options
}

// New opens the database. Close the Database when done.
func New(o Options) (*Database, error) {
	if o.File == "" {
		return nil, errors.New("want -db FILE: a database")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	db, err := sqlite.Open(sqlite.Options{File: o.File, ReadOnly: o.ReadOnly, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	return &Database{db: db, o: o}, nil
}

// Close closes the database.
func (d *Database) Close() error { return d.db.Close() }

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	var o Options
	flags := flag.NewFlagSet("sqlite", flag.ContinueOnError)
	flags.StringVar(&o.File, "db", "", "the database `file`")
	flags.BoolVar(&o.ReadOnly, "readonly", false, "offer nothing that writes")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Second, "limit for one statement")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("sqlite: want flags only, have %q", flags.Arg(0))
	}
	d, err := New(o)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return errors.Join(toolserver.Serve(ctx, d.Server(), *addr), d.Close())
}

// Server returns a new MCP server with the tools of d.
func (d *Database) Server() *mcp.Server {
	no, yes := false, true
	s := mcp.NewServer(&mcp.Implementation{Name: "sqlite", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "One SQLite database. Mark values in statements with ? and give them in params.",
		Capabilities: &mcp.ServerCapabilities{},
	})
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	toolserver.Add(s, &mcp.Tool{
		Name: "query", Title: "Query the database", Annotations: reads,
		Description: "Run one reading SQL statement (SELECT, VALUES, WITH, EXPLAIN). Mark values with ? and give them in params.",
	}, d.db.Query)
	toolserver.Add(s, &mcp.Tool{
		Name: "list_tables", Title: "List the tables", Annotations: reads,
		Description: "List the tables and views by name.",
	}, d.db.Tables)
	toolserver.Add(s, &mcp.Tool{
		Name: "describe_table", Title: "Describe a table", Annotations: reads,
		Description: "List the columns of a table or view with their types.",
	}, d.db.Describe)
	if !d.o.ReadOnly {
		toolserver.Add(s, &mcp.Tool{
			Name: "execute", Title: "Change the database",
			Description: "Run one writing SQL statement (INSERT, UPDATE, DELETE, CREATE TABLE, ...). Mark values with ? and give them in params.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		}, d.db.Execute)
	}
	return s
}
