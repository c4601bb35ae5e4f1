// Package postgres is the access to PostgreSQL for all parts of the program: a pool of connections with timeouts,
// errors that name the database without its password, the classification of errors that can be retried, and
// notifications.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the database and how it is used.
type Options struct {
	// URL is a libpq connection URL. Parameters in it, such as statement_timeout, take precedence.
	URL string
	// Schema is the schema of the tables; default "vmcp".
	Schema string
	// MaxConnections bounds the pool; default 16. Watch opens one more.
	MaxConnections int
	// Process commits without waiting for the disk (synchronous_commit off): commits survive the end of this
	// process, but may be lost with the database's machine.
	Process bool
}

const (
	connectWithin   = 5 * time.Second
	statementWithin = 5000 // milliseconds
	// idleWithin bounds the idle time in a transaction, in milliseconds, after which the database ends it: a process
	// that was stopped keeps rows locked until then.
	idleWithin = "5000"
	// answerWithin is how much longer than statement_timeout a call waits for the server, which enforces that timeout unless
	// it has stopped or the network is cut.
	answerWithin = time.Second
)

// keepAlive finds connections that are dead although nothing is sent on them, such as the one that waits for notifications.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 3 * time.Second, Count: 3}

// pingAfter is how long a connection is idle before it is checked when it is used again. A poll would be two transactions with
// pgx's second; what Died reports of a lost connection is retried in any case.
const pingAfter = time.Minute

// DB is a schema of a database.
type DB struct {
	*pgxpool.Pool
	// Name identifies the database in errors.
	Name string
	// Schema is the schema's name.
	Schema string

	within time.Duration // see Bounded
}

var schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Open makes the pool. It does not connect yet.
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
	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	cfg.MaxConns = 16
	if o.MaxConnections > 0 {
		cfg.MaxConns = int32(min(o.MaxConnections, 10_000))
	}
	cfg.ConnConfig.ConnectTimeout = connectWithin
	cfg.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive, Control: unsentWithin}).DialContext
	params := cfg.ConnConfig.RuntimeParams
	for name, value := range map[string]string{"statement_timeout": strconv.Itoa(statementWithin), "idle_in_transaction_session_timeout": idleWithin, "application_name": "vmcp"} {
		if params[name] == "" {
			params[name] = value
		}
	}
	if o.Process {
		params["synchronous_commit"] = "off"
	}
	db := &DB{Name: fmt.Sprintf("PostgreSQL at %s/%s", cfg.ConnConfig.Host, cfg.ConnConfig.Database), Schema: o.Schema}
	db.within = timeout(params["statement_timeout"]) + answerWithin
	if db.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", db.Name, err)
	}
	return db, nil
}

// timeout reads a value of statement_timeout; statementWithin where it has none.
func timeout(value string) time.Duration {
	value = strings.ReplaceAll(strings.ReplaceAll(value, "min", "m"), " ", "")
	if _, err := strconv.Atoi(value); err == nil {
		value += "ms"
	}
	if d, err := time.ParseDuration(value); err == nil && d > 0 {
		return d
	}
	return statementWithin * time.Millisecond
}

// Bounded is ctx for one round trip to the server: with the deadline after which a server that does not answer counts as
// unavailable, a second after statement_timeout. Call answered with the result of the round trip; an error of that deadline
// says so, and the other idle connections, which are probably dead, too, are closed.
func (db *DB) Bounded(ctx context.Context) (bounded context.Context, answered func(error) error) {
	bounded, cancel := context.WithTimeout(ctx, db.within)
	return bounded, func(err error) error {
		late := bounded.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late {
			return err
		}
		db.Reset()
		return fmt.Errorf("no answer within %s: %w", db.within, err)
	}
}

// closeWithin bounds the wait of Close.
const closeWithin = 2 * time.Second

// Close closes the pool, and waits for at most closeWithin: for a server that does not respond the driver waits 15 s,
// longer than the shutdown of a process may take.
func (db *DB) Close() {
	closed := make(chan struct{})
	go db.closePool(closed)
	select {
	case <-closed:
	case <-time.After(closeWithin):
	}
}

func (db *DB) closePool(closed chan<- struct{}) {
	defer close(closed)
	db.Pool.Close()
}

// Prepare creates the schema if it is missing, in a transaction with an advisory lock, so that processes that
// start at the same time wait for each other.
func (db *DB) Prepare(ctx context.Context, t pgx.Tx) error {
	if _, err := t.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('vmcp'))`); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+db.Schema+`"`)
	return err
}

// Died reports whether an error is that of a lost connection or of a transaction that was aborted for another one,
// and not of the statement: nothing was committed unless a commit was running, and a retry may succeed. After a lost
// connection it closes the idle ones, which are probably lost too, so that the retry uses a new one.
func (db *DB) Died(err error) bool {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01"):
		return true
	case errors.As(err, &pg) && pg.Code != "57P01" && pg.Code != "25P03" && !strings.HasPrefix(pg.Code, "08"):
		return false
	case err == nil || errors.Is(err, pgx.ErrNoRows):
		return false
	case (errors.As(err, &connect) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !pgconn.SafeToRetry(err):
		return false
	}
	db.Reset()
	return true
}

// Watch calls changed for each notification on a channel whose payload is not self, after each lost connection, and at
// the interval every, because notifications may be lost. It uses a separate connection, until ctx ends.
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
	defer closeConn(conn)
	bounded, answered := db.Bounded(ctx)
	if _, err := conn.Exec(bounded, "LISTEN "+channel); answered(err) != nil {
		return err
	}
	changed() // for notifications before LISTEN
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

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin/2)
	defer cancel()
	_ = conn.Close(ctx)
}
