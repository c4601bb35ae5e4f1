package workspace

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

// store is one SQLite database, opened twice: to read only, and to write. No statement
// makes the reader write, whatever its text is.
type store struct {
	reader, writer *sql.DB
	// keep stays open and idle: a database in memory ends with its last connection,
	// and the driver drops one that was interrupted.
	keep    *sql.Conn
	timeout time.Duration
}

// pragmas hold for every connection: no temporary files (they would be outside of the
// database), no trust in what a database file declares, 256 MiB each for the database
// and for all memory of SQLite.
var pragmas = []string{
	"busy_timeout(5000)", "temp_store(2)", "trusted_schema(0)", "cell_size_check(1)",
	"foreign_keys(1)", "max_page_count(65536)", "hard_heap_limit(268435456)",
}

// limits that a statement cannot lift: no ATTACH (and so no VACUUM, which attaches its
// target), no values over 16 MiB, no SQL over 256 KiB.
var limits = map[int]int{
	lib.SQLITE_LIMIT_ATTACHED:   0,
	lib.SQLITE_LIMIT_LENGTH:     16 << 20,
	lib.SQLITE_LIMIT_SQL_LENGTH: 256 << 10,
}

// countMemory makes SQLite count its memory, without which hard_heap_limit has no effect.
// It is for the whole process and has to come before anything else uses SQLite.
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

func openStore(o Options) (*store, error) {
	if err := countMemory(); err != nil {
		return nil, err
	}
	file, err := databaseURI(o)
	if err != nil {
		return nil, err
	}
	s := &store{timeout: o.QueryTimeout}
	if s.writer, err = sql.Open("sqlite", dsn(file)+"&_txlock=immediate"); err != nil {
		return nil, fmt.Errorf("database %s: %w", o.Database, err)
	}
	s.writer.SetMaxOpenConns(1)
	if s.reader, err = sql.Open("sqlite", dsn(file, "query_only(1)")+"&mode=ro"); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", o.Database, err), s.writer.Close())
	}
	s.reader.SetMaxOpenConns(1 + 4)
	if err := s.seed(o.Seed); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.keep, err = s.reader.Conn(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", o.Database, err), s.close())
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

// databaseURI checks that the file tools cannot write the database.
func databaseURI(o Options) (string, error) {
	if o.Database == "" {
		return "file:/" + rand.Text() + "?vfs=memdb", nil // shared by the connections of this process
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(o.Database))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	root, err := filepath.EvalSymlinks(o.Root)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return "", fmt.Errorf("root: %w", err)
	}
	if rel, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(rel) {
		return "", fmt.Errorf("database %s: want a file outside of %s, whose files can be rewritten", o.Database, o.Root)
	}
	file := filepath.Join(dir, filepath.Base(o.Database))
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("database %s: want a regular file", o.Database)
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(file)}).String(), nil
}

func (s *store) close() error {
	var kept error
	if s.keep != nil {
		kept = s.keep.Close()
	}
	return errors.Join(kept, s.reader.Close(), s.writer.Close())
}

// reading runs f with a connection that cannot write.
func (s *store) reading(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	return s.with(ctx, s.reader, f)
}

// writing runs f with the one connection that can write.
func (s *store) writing(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	return s.with(ctx, s.writer, f)
}

func (s *store) with(ctx context.Context, db *sql.DB, f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
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
		return errors.Join(ctx.Err(), err) // an interrupted statement does not say why
	}
	return nil
}

// seed fills a database that has no tables, in one transaction, which begins with the
// look at them: of several processes that start at once, one seeds.
func (s *store) seed(file string) error {
	if file == "" {
		return s.writing(context.Background(), func(ctx context.Context, c *sql.Conn) error { return c.PingContext(ctx) })
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return s.writing(context.Background(), func(ctx context.Context, c *sql.Conn) error {
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
