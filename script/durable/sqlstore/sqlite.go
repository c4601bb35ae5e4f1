package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// now registers the SQL function vmcp_now, the time in microseconds: SQLite's clock has milliseconds.
var now = sync.OnceValue(func() error {
	return sqlite.RegisterScalarFunction("vmcp_now", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
})

// SQLiteOptions say where the file is and how it is opened.
type SQLiteOptions struct {
	Options
	// Path is the file, created with mode 0600. Beside it are Path-wal and Path-shm, Path.lock, and
	// Path.key where Ring is nil.
	Path string
	// Process makes writes survive the end of the process only, not a loss of power.
	Process bool
	// Beside opens a file that another process may serve at the same time: it is not locked, and
	// runs keep their owners.
	Beside bool
	// Poll is how often the changes of other processes are polled for; each second where it is 0.
	Poll time.Duration
}

// file is a SQLite database. One goroutine (writer.go) does all writes on one connection; reads use
// up to four others, which see the last commit.
type file struct {
	dialect
	path   string
	poll   time.Duration
	writer *sql.DB
	conn   *sql.Conn // of writer; its goroutine owns it
	stmts  preparer  // of conn
	reader *sql.DB
	lock   *lockFile // nil with SQLiteOptions.Beside

	requests chan *request
	foreign  chan struct{} // another process has committed
	stop     chan struct{}
	done     chan struct{}
}

// OpenSQLite opens the store in a file, which it creates if it is missing. Unless Beside is set, the
// file is locked for this process until Close, and all runs in state Running are due: their owners
// were processes that have ended.
func OpenSQLite(ctx context.Context, o SQLiteOptions) (*Store, error) {
	path, err := filepath.Abs(o.Path)
	if err := errors.Join(err, now()); err != nil {
		return nil, err
	}
	f := &file{path: path, poll: cmp.Or(o.Poll, time.Second), requests: make(chan *request), foreign: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	f.words = strings.NewReplacer("{int}", "INTEGER", "{blob}", "BLOB", "{norowid}", " WITHOUT ROWID", "{alone}", "SELECT 1", "{sqlite}", "", "{lock}", "", "{now}", "vmcp_now()")
	if o.Beside {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: %w", durable.ErrUnavailable, err)
		}
	} else if f.lock, err = lockPath(path + ".lock"); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Ring == nil {
		if o.Ring, err = keyBeside(path+".key", !o.Beside); err != nil {
			return nil, errors.Join(err, f.closeFiles())
		}
	}
	if err := f.open(ctx, o); err != nil {
		return nil, errors.Join(err, f.closeFiles())
	}
	go f.writeLoop()
	s := newStore(o.Options, f)
	if o.Beside {
		return s, nil
	}
	// No other process has the lock, so no other process owns a run.
	if err := f.write(ctx, func(t tx) error {
		_, err := t.exec(ctx, `UPDATE @runs SET owner = '', lease = 0, wake = {now} WHERE state = 'running'`)
		return err
	}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// keyBeside reads the key in the file path, or with create makes one where the file is missing.
func keyBeside(path string, create bool) (*durable.Ring, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		secret := make([]byte, 32)
		rand.Read(secret)
		text = []byte(base64.StdEncoding.EncodeToString(secret) + "\n")
		err = writeNew(path, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the key of the runs: %w", durable.ErrUnavailable, err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != 32 {
		return nil, fmt.Errorf("%w: %s has no key: want 32 bytes in base64", durable.ErrUnavailable, path)
	}
	return durable.NewSeal([]durable.Key{{ID: "file", Secret: secret}})
}

// writeNew writes a file with mode 0600 atomically.
func writeNew(path string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// open opens the connections, checks the file and migrates its tables.
func (f *file) open(ctx context.Context, o SQLiteOptions) (err error) {
	defer guard(f.path, &err)
	made, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite gives its -wal and -shm files the same mode
	if err != nil {
		return fmt.Errorf("%w: %w", durable.ErrUnavailable, err)
	}
	made.Close()
	sync := "FULL"
	if o.Process {
		sync = "NORMAL"
	}
	common := []string{"busy_timeout(5000)", "cell_size_check(1)", "trusted_schema(0)", "temp_store(2)", "secure_delete(1)", "synchronous(" + sync + ")"}
	if f.writer, err = sql.Open("sqlite", dsn(f.path, append(common, "journal_mode(WAL)"))); err != nil {
		return f.failure("open", err)
	}
	f.writer.SetMaxOpenConns(1)
	if f.reader, err = sql.Open("sqlite", dsn(f.path, append(common, "query_only(1)"))); err != nil {
		return f.failure("open", err)
	}
	f.reader.SetMaxOpenConns(4)
	if f.conn, err = f.writer.Conn(ctx); err != nil {
		return f.failure("open", err)
	}
	f.stmts = preparer{f.conn, map[string]*sql.Stmt{}}
	if !o.Beside {
		if err := f.whole(ctx); err != nil {
			return err
		}
	}
	if err := f.inTransaction(ctx, func() error { return migrate(ctx, f.tx(f.conn), f.path) }); err != nil {
		return err
	}
	if !o.Beside {
		return f.checkMark(ctx, o.Process)
	}
	return nil
}

// dsn is the driver's URI of a file, with the characters of its name escaped.
func dsn(path string, pragmas []string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	v := url.Values{"_pragma": pragmas}
	return u.String() + "?" + v.Encode()
}

// fullCheckSize is the size in bytes up to which a file is checked with its indexes at every start.
const fullCheckSize = 256 << 20

// whole returns an error if the file is damaged.
func (f *file) whole(ctx context.Context) error {
	check := "integrity_check"
	if info, err := os.Stat(f.path); err == nil && info.Size() > fullCheckSize {
		check = "quick_check"
	}
	var found string
	if err := f.conn.QueryRowContext(ctx, "PRAGMA "+check+"(1)").Scan(&found); err != nil {
		return f.failure("check", err)
	}
	if found != "ok" {
		return damagedFile(f.path, "check: "+found)
	}
	return nil
}

// failure adds the file and the operation to an error, and its kind: ErrDamaged or ErrUnavailable.
func (f *file) failure(what string, err error) error {
	if err == nil || errors.Is(err, errFenced) || errors.Is(err, errNoRow) {
		return err
	}
	var coded *sqlite.Error
	if errors.As(err, &coded) {
		switch coded.Code() & 0xff {
		case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
			return damagedFile(f.path, what+": "+err.Error())
		case lib.SQLITE_FULL:
			return fmt.Errorf("%w: %w: %s: %s: %w", durable.ErrUnavailable, durable.ErrFull, f.path, what, err)
		}
	}
	return fmt.Errorf("%w: %s: %s: %w", durable.ErrUnavailable, f.path, what, err)
}

// damage is an error of a whole database that is damaged or incomplete. It is durable.ErrDamaged for errors.Is.
type damage string

func (d damage) Error() string { return string(d) }

// Is implements errors.Is.
func (d damage) Is(target error) bool { return target == durable.ErrDamaged }

// damagedFile is the error of a damaged file, with the ways to repair it.
func damagedFile(path, what string) error {
	return damage(fmt.Sprintf("the database of runs %s is damaged: %s; it was not changed: put a backup in its place and remove %s-wal, %s-shm and %s.lock, or move all four away to start without its runs", path, what, path, path, path))
}

// guard turns a panic of the driver, which a damaged file may cause, into an error.
func guard(path string, err *error) {
	if p := recover(); p != nil {
		*err = damagedFile(path, fmt.Sprintf("the SQLite driver panicked: %v", p))
	}
}

// conn is the common interface of *sql.Conn and *sql.Tx.
type conn interface {
	ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, sql string, args ...any) (*sql.Rows, error)
}

// preparer runs statements on the connection that writes, and keeps them prepared.
type preparer struct {
	*sql.Conn
	ready map[string]*sql.Stmt
}

// maxPrepared bounds the prepared statements: there are a few dozen.
const maxPrepared = 100

func (p *preparer) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	st := p.ready[text]
	if st == nil {
		if len(p.ready) >= maxPrepared {
			return p.Conn.ExecContext(ctx, text, args...)
		}
		var err error
		if st, err = p.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
		p.ready[text] = st
	}
	return st.ExecContext(ctx, args...)
}

// close frees the statements.
func (p *preparer) close() error {
	var errs []error
	for _, st := range p.ready {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// sqliteTx is a transaction on a connection.
type sqliteTx struct {
	f *file
	c conn
}

func (f *file) tx(c conn) tx { return sqliteTx{f, c} }

func (t sqliteTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	res, err := t.c.ExecContext(ctx, t.f.text(sql), args...)
	if err != nil {
		return 0, t.f.failure("write", err)
	}
	n, err := res.RowsAffected()
	return n, t.f.failure("write", err)
}

func (t sqliteTx) query(ctx context.Context, sql string, args []any, row func(func(...any) error) error) error {
	rows, err := t.c.QueryContext(ctx, t.f.text(sql), args...)
	if err != nil {
		return t.f.failure("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(func(dest ...any) error {
			if err := rows.Scan(dest...); err != nil {
				return damagedFile(t.f.path, err.Error()) // the value has another type than the one that was written
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return t.f.failure("read", rows.Err())
}

func (f *file) read(ctx context.Context, do func(snapshot) error) (err error) {
	defer guard(f.path, &err)
	t, err := f.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return f.failure("read", err)
	}
	defer t.Rollback()
	return do(snapshot{f.tx(t)})
}

func (f *file) readOne(ctx context.Context, do func(snapshot) error) error { return f.read(ctx, do) }

func (f *file) announce() stmt { return stmt{} } // other processes poll data_version

func (f *file) watch(ctx context.Context, changed func()) {
	for {
		select {
		case <-f.foreign:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

func (f *file) goesBack() bool { return false } // the file is locked for this process

func (f *file) close() error {
	close(f.stop)
	<-f.done
	return f.closeFiles()
}

func (f *file) closeFiles() error {
	var errs []error
	if f.conn != nil {
		errs = append(errs, f.stmts.close(), f.conn.Close())
	}
	for _, db := range []*sql.DB{f.reader, f.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if f.lock != nil {
		errs = append(errs, f.lock.close())
	}
	return errors.Join(errs...)
}
