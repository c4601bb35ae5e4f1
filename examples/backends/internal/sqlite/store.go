// Package sqlite is a SQLite database for the example backends, with bounds that a hostile client cannot
// pass: a statement cannot reach another file, raise a limit, or write through a query.
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/libc"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Options of a database.
type Options struct {
	// File is the database, which is created if it is missing. "" is a database in memory.
	File string
	// Outside is a folder in which File may not be; "" for none.
	Outside string
	// Seed is a file of SQL that fills a database that has no tables yet. It is trusted: it may have any
	// statements.
	Seed string
	// Timeout bounds one statement.
	Timeout time.Duration
	// ReadOnly opens an existing file for reading only.
	ReadOnly bool
}

// DB is one SQLite database, opened twice: read-only, and for writing. No statement
// can write through the reader, whatever its text is.
type DB struct {
	reader, writer *sql.DB // writer is nil with ReadOnly
	// keep is an idle connection that stays open: a database in memory ends with its last connection,
	// and the driver closes one that was interrupted.
	keep    *sql.Conn
	timeout time.Duration
}

// pragmas are set on every connection: no temporary files (they would be outside of the
// database), an untrusted schema, 256 MiB each for the database
// and for all memory of SQLite.
var pragmas = []string{
	"busy_timeout(5000)", "temp_store(2)", "trusted_schema(0)", "cell_size_check(1)",
	"foreign_keys(1)", "max_page_count(65536)", "hard_heap_limit(268435456)",
}

// limits are limits of SQLite that a statement cannot raise: no ATTACH (and so no VACUUM, which attaches its
// target), no values over 16 MiB, no SQL over 256 KiB.
var limits = map[int]int{
	lib.SQLITE_LIMIT_ATTACHED:   0,
	lib.SQLITE_LIMIT_LENGTH:     16 << 20,
	lib.SQLITE_LIMIT_SQL_LENGTH: 256 << 10,
}

// countMemory makes SQLite count its memory, without which hard_heap_limit has no effect.
// It is process-wide and has to be called before any other use of SQLite.
var countMemory = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	on := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, on)
	if rc := lib.Xsqlite3_config(tls, lib.SQLITE_CONFIG_MEMSTATUS, on); rc != lib.SQLITE_OK {
		return fmt.Errorf("database: the memory limit cannot be set (code %d): SQLite is in use already", rc)
	}
	return nil
})

// Open opens a database. Close it when done.
func Open(o Options) (*DB, error) {
	if err := countMemory(); err != nil {
		return nil, err
	}
	file, err := databaseURI(o)
	if err != nil {
		return nil, err
	}
	s := &DB{timeout: o.Timeout}
	if !o.ReadOnly {
		if s.writer, err = sql.Open("sqlite", dsn(file)+"&_txlock=immediate"); err != nil {
			return nil, fmt.Errorf("database %s: %w", o.File, err)
		}
		s.writer.SetMaxOpenConns(1)
	}
	if s.reader, err = sql.Open("sqlite", dsn(file, "query_only(1)")+"&mode=ro"); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", o.File, err), s.Close())
	}
	s.reader.SetMaxOpenConns(1 + 4)
	if !o.ReadOnly {
		if err := s.seed(o.Seed); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if s.keep, err = s.reader.Conn(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", o.File, err), s.Close())
	}
	return s, nil
}

func dsn(file string, more ...string) string {
	q := url.Values{"_pragma": append(more, pragmas...)}
	sep := "?"
	if strings.Contains(file, "?") {
		sep = "&"
	}
	return file + sep + q.Encode()
}

// databaseURI is the driver's URI of the database.
func databaseURI(o Options) (string, error) {
	if o.File == "" {
		return "file:/" + rand.Text() + "?vfs=memdb", nil // shared by the connections of this process
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(o.File))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	if err := o.checkPlace(dir); err != nil {
		return "", err
	}
	file := filepath.Join(dir, filepath.Base(o.File))
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("database %s: want a regular file", o.File)
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(file)}).String(), nil
}

// checkPlace checks that the folder of the database is not inside of Options.Outside.
func (o Options) checkPlace(dir string) error {
	if o.Outside == "" {
		return nil
	}
	outside, err := filepath.EvalSymlinks(o.Outside)
	if err == nil {
		outside, err = filepath.Abs(outside)
	}
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if rel, err := filepath.Rel(outside, dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("database %s: want a file outside of %s, whose files can be rewritten", o.File, o.Outside)
	}
	return nil
}

// Close closes the database.
func (s *DB) Close() error {
	var all []error
	if s.keep != nil {
		all = append(all, s.keep.Close())
	}
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			all = append(all, db.Close())
		}
	}
	return errors.Join(all...)
}

// reading runs f with a connection that cannot write.
func (s *DB) reading(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	return s.with(ctx, s.timeout, s.reader, f)
}

// writing runs f with the one connection that can write.
func (s *DB) writing(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	return s.with(ctx, s.timeout, s.writer, f)
}

func (s *DB) with(ctx context.Context, limit time.Duration, db *sql.DB, f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for id, limit := range limits {
		if _, err := sqlite.Limit(c, id, limit); err != nil {
			return err
		}
	}
	if err := f(ctx, c); err != nil {
		return errors.Join(ctx.Err(), err) // the error of an interrupted statement has no cause
	}
	return nil
}

// seedTime bounds the seeding at the start.
const seedTime = time.Minute

// seed fills a database that has no tables, in one transaction that also counts the
// tables: of several processes that start at the same time, one seeds.
func (s *DB) seed(file string) error {
	if file == "" {
		return s.with(context.Background(), max(seedTime, s.timeout), s.writer, func(ctx context.Context, c *sql.Conn) error { return c.PingContext(ctx) })
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return s.with(context.Background(), max(seedTime, s.timeout), s.writer, func(ctx context.Context, c *sql.Conn) error {
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		defer tx.Rollback()
		var tables int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil || tables > 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(src)); err != nil {
			return fmt.Errorf("seed %s: %w", file, err)
		}
		return tx.Commit()
	})
}
