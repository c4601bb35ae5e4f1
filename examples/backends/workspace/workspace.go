// Package workspace is an MCP server over one directory, one SQLite database and the
// public web, with bounds that a hostile client cannot pass: paths cannot leave the
// directory, SQL cannot reach another file, and a fetch cannot reach a private address.
//
//	go run ./examples/backends/workspace/cmd/workspace -root .
package workspace

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/sqlite"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Options of a Workspace. Only Root is required.
type Options struct {
	// Root is the directory of the file tools.
	Root string
	// Database is a SQLite file outside of Root, so that the file tools cannot rewrite
	// it. It is created if it is missing. Default: a database in memory.
	Database string
	// Seed is a file of SQL that fills a database that has no tables yet. It is trusted: it may have any
	// statements.
	Seed string
	// MaxFile is the largest piece of a file that is read or written in one call. Default 1 MiB.
	MaxFile int64
	// QueryTimeout bounds one SQL statement. Default 10s.
	QueryTimeout time.Duration
	// FetchTimeout bounds one fetch, redirects and body included. Default 15s.
	FetchTimeout time.Duration
	// AllowHosts are "host" or "host:port" that may be fetched although they are
	// private, as they are written in the URL.
	AllowHosts []string
}

// Workspace serves files, SQL and fetches.
type Workspace struct {
	root *os.Root
	db   *sqlite.DB
	web  *http.Client
	o    Options
}

// New opens the directory and the database. Close the Workspace when done.
func New(o Options) (*Workspace, error) {
	if o.Root == "" {
		return nil, errors.New("root: want a directory, have none")
	}
	if o.MaxFile == 0 {
		o.MaxFile = 1 << 20
	}
	if o.QueryTimeout == 0 {
		o.QueryTimeout = 10 * time.Second
	}
	if o.FetchTimeout == 0 {
		o.FetchTimeout = 15 * time.Second
	}
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	db, err := sqlite.Open(sqlite.Options{File: o.Database, Outside: o.Root, Seed: o.Seed, Timeout: o.QueryTimeout})
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Workspace{root: root, db: db, web: newClient(o.AllowHosts), o: o}, nil
}

// Close closes the directory and the database.
func (w *Workspace) Close() error {
	w.web.CloseIdleConnections()
	return errors.Join(w.root.Close(), w.db.Close())
}

// Server returns a new MCP server with the tools of w.
func (w *Workspace) Server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "workspace", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Files below one directory (paths are relative to it, with /), one SQLite database, and fetch for public URLs.",
		Capabilities: &mcp.ServerCapabilities{},
	})
	w.addFileTools(s)
	w.addSQLTools(s)
	w.addFetchTool(s)
	return s
}

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	var o Options
	flags := flag.NewFlagSet("workspace", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "directory of the file tools")
	flags.StringVar(&o.Database, "db", "", "SQLite `file` outside of the root (default: in memory)")
	flags.StringVar(&o.Seed, "seed", "", "`file` of SQL to fill an empty database with")
	flags.DurationVar(&o.QueryTimeout, "query-timeout", 10*time.Second, "limit for one SQL statement")
	flags.DurationVar(&o.FetchTimeout, "fetch-timeout", 15*time.Second, "limit for one fetch")
	allow := flags.String("allow-hosts", "", "comma-separated `hosts` (host or host:port) that may be fetched although private")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("workspace: want flags only, have %q", flags.Arg(0))
	}
	if *allow != "" {
		o.AllowHosts = strings.Split(*allow, ",")
	}
	w, err := New(o)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	return errors.Join(toolserver.Serve(ctx, w.Server(), *addr), w.Close())
}

func hint(b bool) *bool { return &b }
