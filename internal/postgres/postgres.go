// Package postgres is PostgreSQL as every part of the program uses it: a pool of connections with bounded times, errors that
// name the database and no password, one more try where a connection has died, and notifications.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say where the database is and how it is used.
type Options struct {
	// URL is that of libpq. What it sets as a parameter, such as statement_timeout, stays.
	URL string
	// Schema has the tables. "vmcp" where it is "".
	Schema string
	// MaxConnections bounds the pool; 16 where it is 0. Watch takes one more.
	MaxConnections int
	// Process makes what is written survive the end of this process, not that of the database's machine.
	Process bool
}

const (
	connectWithin   = 5 * time.Second
	statementWithin = "5000" // milliseconds
	// idleWithin is how long a transaction may stand still before the database ends it. A process that was stopped, or whose
	// machine was, holds rows until then which others wait for.
	idleWithin = "5000"
)

// DB is a schema of a database.
type DB struct {
	*pgxpool.Pool
	// Name says which database it is, in errors.
	Name string
	// Schema is the schema's name.
	Schema string
}

var schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Open makes the pool. It connects to nothing yet.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Schema == "" {
		o.Schema = "vmcp"
	}
	if !schemaName.MatchString(o.Schema) {
		return nil, fmt.Errorf("the schema %q: want letters, digits and _", o.Schema)
	}
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err // pgx hides the password
	}
	cfg.MaxConns = 16
	if o.MaxConnections > 0 {
		cfg.MaxConns = int32(min(o.MaxConnections, 10_000))
	}
	cfg.ConnConfig.ConnectTimeout = connectWithin
	params := cfg.ConnConfig.RuntimeParams
	for name, value := range map[string]string{"statement_timeout": statementWithin, "idle_in_transaction_session_timeout": idleWithin, "application_name": "vmcp"} {
		if params[name] == "" {
			params[name] = value
		}
	}
	if o.Process {
		params["synchronous_commit"] = "off"
	}
	db := &DB{Name: fmt.Sprintf("PostgreSQL at %s/%s", cfg.ConnConfig.Host, cfg.ConnConfig.Database), Schema: o.Schema}
	if db.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", db.Name, err)
	}
	return db, nil
}

// Prepare makes the schema where it is missing, in a transaction that processes which start at once wait for.
func (db *DB) Prepare(ctx context.Context, t pgx.Tx) error {
	if _, err := t.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('vmcp'))`); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+db.Schema+`"`)
	return err
}

// Died reports whether an error is that of a connection or of a transaction that gave way to another, not of what was
// asked: nothing was committed unless a commit was under way, and a fresh connection may do better.
func Died(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "57P01" || pg.Code == "25P03" || strings.HasPrefix(pg.Code, "08") || pg.Code == "40001" || pg.Code == "40P01"
	}
	var connect *pgconn.ConnectError
	return err != nil && !errors.As(err, &connect) && !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}

// Watch calls changed for the notifications on a channel that are not self's, after each connection that was lost, and
// every now and then by itself, for notifications get lost. It has a connection of its own, until ctx ends.
func (db *DB) Watch(ctx context.Context, channel, self string, every time.Duration, changed func()) {
	for ctx.Err() == nil {
		if err := db.listen(ctx, channel, self, every, changed); err != nil && ctx.Err() == nil {
			changed()
			select {
			case <-ctx.Done():
			case <-time.After(every / 5):
			}
		}
	}
}

// listen is Watch until the connection ends.
func (db *DB) listen(ctx context.Context, channel, self string, every time.Duration, changed func()) error {
	conn, err := pgx.ConnectConfig(ctx, db.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	changed() // what came before
	for {
		wait, cancel := context.WithTimeout(ctx, every)
		n, err := conn.WaitForNotification(wait)
		late := wait.Err() != nil
		cancel()
		switch {
		case err == nil && n.Payload == self:
			continue
		case err != nil && (!late || ctx.Err() != nil):
			return err
		}
		changed()
	}
}
