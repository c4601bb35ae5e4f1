// Package postgres is an MCP server over one PostgreSQL database. Queries run in a read-only
// transaction, one statement per call, and a connection is reset after each
// call.
//
//	DATABASE_URL=postgres://reader@localhost/shop go run ./examples/backends/postgres/cmd/postgres -readonly
package postgres

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Options of a server. DSN is required.
type Options struct {
	// DSN is the address of the database: postgres://USER:PASSWORD@HOST/NAME, or key=value pairs.
	DSN string
	// ReadOnly leaves out the tool that writes.
	ReadOnly bool
	// Timeout bounds one statement, at the server. Default 10s.
	Timeout time.Duration
}

// Database serves one database.
type Database struct {
	pool *pgxpool.Pool
	o    Options
}

// maxConnections bounds the calls that run concurrently.
const maxConnections = 4

// New parses the address; connections are opened when they are needed. Close the Database when done.
func New(o Options) (*Database, error) {
	if o.DSN == "" {
		return nil, errors.New("want -dsn DSN, or DATABASE_URL in the environment: the database")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	c, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, errors.New("-dsn is no address of a database: want postgres://USER:PASSWORD@HOST/NAME") // err may quote the password
	}
	c.MaxConns = maxConnections
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec // one statement, and none that stays prepared
	c.ConnConfig.RuntimeParams["application_name"] = "mcp-postgres"
	// Settings, locks, prepared statements and temporary tables of a call are removed after it.
	c.AfterRelease = func(conn *pgx.Conn) bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, "DISCARD ALL")
		return err == nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return &Database{pool: pool, o: o}, nil
}

// Close closes the connections.
func (d *Database) Close() { d.pool.Close() }

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	var o Options
	flags := flag.NewFlagSet("postgres", flag.ContinueOnError)
	flags.StringVar(&o.DSN, "dsn", "", "`address` of the database (default: DATABASE_URL of the environment)")
	flags.BoolVar(&o.ReadOnly, "readonly", false, "offer nothing that writes")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Second, "limit for one statement")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("postgres: want flags only, have %q", flags.Arg(0))
	}
	o.DSN = cmp.Or(o.DSN, os.Getenv("DATABASE_URL"))
	d, err := New(o)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer d.Close()
	return toolserver.Serve(ctx, d.Server(), *addr)
}

// Server returns a new MCP server with the tools of d.
func (d *Database) Server() *mcp.Server {
	no, yes := false, true
	s := mcp.NewServer(&mcp.Implementation{Name: "postgres", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "One PostgreSQL database. Mark values in statements with $1, $2 ... and give them in params.",
		Capabilities: &mcp.ServerCapabilities{},
	})
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	toolserver.Add(s, &mcp.Tool{
		Name: "query", Title: "Query the database", Annotations: reads,
		Description: "Run one reading SQL statement (SELECT, VALUES, TABLE, WITH, EXPLAIN, SHOW) in a read-only transaction. Mark values with $1, $2 ... and give them in params.",
	}, d.query)
	toolserver.Add(s, &mcp.Tool{
		Name: "list_tables", Title: "List the tables", Annotations: reads,
		Description: "List the tables and views by name.",
	}, d.tables)
	toolserver.Add(s, &mcp.Tool{
		Name: "describe_table", Title: "Describe a table", Annotations: reads,
		Description: "List the columns of a table or view with their types.",
	}, d.describe)
	if !d.o.ReadOnly {
		toolserver.Add(s, &mcp.Tool{
			Name: "execute", Title: "Change the database",
			Description: "Run one SQL statement that writes, in a transaction of its own. Mark values with $1, $2 ... and give them in params.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		}, d.execute)
	}
	return s
}

// within runs f in a transaction with a statement timeout at the server. If an idle connection broke, which
// its BEGIN finds before any statement was executed, it uses another one.
func (d *Database) within(ctx context.Context, mode pgx.TxAccessMode, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout+5*time.Second) // longer, for a server that does not answer at all
	defer cancel()
	for try := 0; ; try++ {
		begun := false
		err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{AccessMode: mode}, func(tx pgx.Tx) error {
			begun = true
			ms := strconv.FormatInt(max(d.o.Timeout.Milliseconds(), 1), 10)
			if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = "+ms); err != nil {
				return err
			}
			return f(ctx, tx)
		})
		if err == nil || begun || try == maxConnections || ctx.Err() != nil {
			return d.refusal(err)
		}
	}
}
