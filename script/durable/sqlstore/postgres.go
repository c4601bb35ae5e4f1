package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// PostgresOptions say where the database is and how it is used.
type PostgresOptions struct {
	Options
	// URL is a connection URL of libpq. Parameters that it sets, such as statement_timeout, are kept.
	URL string
	// Schema is the schema of the tables; it is created if it is missing. "vmcp" where it is "".
	Schema string
	// MaxConnections bounds the pool; 16 where it is 0. One more connection waits for notifications.
	MaxConnections int
	// Process makes writes survive the end of this process, but not a crash of the database's machine.
	Process bool
	// Server is the name of the server whose runs are kept in the schema, such as NAMESPACE/NAME: a schema with the runs of
	// another server is refused. "" where there is one server only: the schema is not checked.
	Server string
}

const (
	// pollEvery is how often the changes of other processes are polled for: notifications may be lost.
	pollEvery = 5 * time.Second
	channel   = "vmcp_runs"
)

// cluster is a PostgreSQL database.
type cluster struct {
	dialect
	name string // for errors, without the password
	self string // identifies this store in notifications
	pool *postgres.DB
}

// OpenPostgres opens the store in a database. Many processes may have it open.
func OpenPostgres(ctx context.Context, o PostgresOptions) (*Store, error) {
	db, err := postgres.Open(ctx, postgres.Options{URL: o.URL, Schema: o.Schema, MaxConnections: o.MaxConnections, Process: o.Process})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", durable.ErrUnavailable, err)
	}
	c := &cluster{name: db.Name, self: db.Schema + " " + durable.NewID(), pool: db}
	c.schema, c.dollars = `"`+db.Schema+`".`, true
	c.words = strings.NewReplacer("{int}", "BIGINT", "{blob}", "BYTEA", "{norowid}", "", "{alone}", "LOCK TABLE @programs IN SHARE ROW EXCLUSIVE MODE", "{sqlite}", "-- ", "{lock}", "FOR UPDATE", "{now}", "(extract(epoch from clock_timestamp()) * 1000000)::bigint")
	if err := c.write(ctx, func(t tx) error {
		if err := db.Prepare(ctx, t.(postgresTx).t.(pgx.Tx)); err != nil {
			return c.failure("prepare the schema", err)
		}
		if err := migrate(ctx, t, "the schema "+db.Schema); err != nil {
			return err
		}
		return assign(ctx, t, o.Server, db.Name, db.Schema)
	}); err != nil {
		db.Close()
		return nil, err
	}
	return newStore(o.Options, c), nil
}

// failure adds the database and the operation to an error, and its kind: ErrDamaged or ErrUnavailable.
func (c *cluster) failure(what string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "XX001" || pg.Code == "XX002") {
		return fmt.Errorf("%w: %s: %s: %w", durable.ErrDamaged, c.name, what, err)
	}
	if pg != nil && pg.Code == "53100" { // disk_full
		return fmt.Errorf("%w: %w: %s: %s: %w", durable.ErrUnavailable, durable.ErrFull, c.name, what, err)
	}
	return fmt.Errorf("%w: %s: %s: %w", durable.ErrUnavailable, c.name, what, err)
}

// postgresTx is a transaction, or the pool for statements that need none.
type postgresTx struct {
	c *cluster
	t interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (t postgresTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	bounded, answered := t.c.pool.Bounded(ctx)
	tag, err := t.t.Exec(bounded, t.c.text(sql), args...)
	return tag.RowsAffected(), t.c.failure("write", answered(err))
}

func (t postgresTx) query(ctx context.Context, sql string, args []any, row func(func(...any) error) error) error {
	bounded, answered := t.c.pool.Bounded(ctx)
	rows, err := t.t.Query(bounded, t.c.text(sql), args...)
	if err != nil {
		return t.c.failure("read", answered(err))
	}
	defer answered(nil)
	defer rows.Close()
	for rows.Next() {
		if err := row(func(dest ...any) error {
			if err := rows.Scan(dest...); err != nil {
				return fmt.Errorf("%w: %s: %v", durable.ErrDamaged, t.c.name, err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return t.c.failure("read", answered(rows.Err()))
}

// write runs do in a transaction, and retries once when the connection broke before the commit.
func (c *cluster) write(ctx context.Context, do func(tx) error) error {
	err, again := c.attempt(ctx, pgx.TxOptions{}, do)
	if err != nil && again {
		err, _ = c.attempt(ctx, pgx.TxOptions{}, do)
	}
	return err
}

func (c *cluster) read(ctx context.Context, do func(snapshot) error) error {
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	read := func(t tx) error { return do(snapshot{t}) }
	err, again := c.attempt(ctx, o, read)
	if err != nil && again {
		err, _ = c.attempt(ctx, o, read)
	}
	return err
}

func (c *cluster) readOne(ctx context.Context, do func(snapshot) error) error {
	all := snapshot{postgresTx{c, c.pool}}
	err := do(all)
	if err != nil && c.died(err) {
		err = do(all)
	}
	return err
}

// attempt runs one transaction. again says that it was not committed, because the connection broke, so
// that it may be retried on a new one.
func (c *cluster) attempt(ctx context.Context, o pgx.TxOptions, do func(tx) error) (err error, again bool) {
	bounded, answered := c.pool.Bounded(ctx)
	t, err := c.pool.BeginTx(bounded, o)
	if err != nil {
		err = c.failure("begin", answered(err))
		return err, c.died(err)
	}
	answered(nil)
	defer c.rollback(ctx, t) // of no effect after a commit
	if err := do(postgresTx{c, t}); err != nil {
		return err, c.died(err)
	}
	bounded, answered = c.pool.Bounded(ctx)
	return c.failure("commit", answered(t.Commit(bounded))), false
}

func (c *cluster) rollback(ctx context.Context, t pgx.Tx) {
	bounded, answered := c.pool.Bounded(context.WithoutCancel(ctx))
	_ = answered(t.Rollback(bounded))
}

// died reports whether an error is that of a connection, not of a statement.
func (c *cluster) died(err error) bool {
	return errors.Is(err, durable.ErrUnavailable) && c.pool.Died(err)
}

// batch sends all statements at once, in one round trip. Each of them has the epoch in its condition,
// so those behind a fence that changed no row change none either.
func (c *cluster) batch(ctx context.Context, stmts []stmt) error {
	err := c.batchOnce(ctx, stmts)
	if err != nil && c.died(err) {
		err = c.batchOnce(ctx, stmts) // rows are written by their key: writing them twice does no harm
	}
	return err
}

func (c *cluster) batchOnce(ctx context.Context, stmts []stmt) error {
	var b pgx.Batch
	for _, s := range stmts {
		b.Queue(c.text(s.sql), s.args...)
	}
	bounded, answered := c.pool.Bounded(ctx)
	results := c.pool.SendBatch(bounded, &b)
	fenced := false
	for i := range stmts {
		tag, err := results.Exec()
		if err != nil {
			results.Close()
			return c.failure("write", answered(err))
		}
		fenced = fenced || i == 0 && tag.RowsAffected() == 0
	}
	if err := answered(results.Close()); err != nil {
		return c.failure("commit", err)
	}
	if fenced {
		return errFenced
	}
	return nil
}

func (c *cluster) announce() stmt {
	return stmt{`SELECT pg_notify('` + channel + `', CAST(? AS TEXT))`, []any{c.self}}
}

// watch listens for notifications on a separate connection, and calls changed every pollEvery besides.
func (c *cluster) watch(ctx context.Context, changed func()) {
	c.pool.Watch(ctx, channel, c.self, pollEvery, changed)
}

func (c *cluster) goesBack() bool { return true }

func (c *cluster) close() error {
	c.pool.Close()
	return nil
}
