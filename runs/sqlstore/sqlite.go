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

	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// now is the time in microseconds for statements: SQLite's own clock shows milliseconds.
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
	// Process makes what is written survive the end of the process only, not the loss of power.
	Process bool
	// Beside opens the file beside the process that serves it, or without one: no lock is taken, and
	// no owner is taken for dead.
	Beside bool
	// Look is how often other processes' changes are looked for; each second where it is 0.
	Look time.Duration
}

// file is a database of SQLite. Writes go through one goroutine (writer.go), reads through
// connections of their own, which see what was committed last.
type file struct {
	dialect
	path   string
	look   time.Duration
	writer *sql.DB
	conn   *sql.Conn // of writer; its goroutine owns it
	stmts  preparer  // of conn
	reader *sql.DB
	lock   *lockFile // nil beside another process

	requests chan *request
	foreign  chan struct{} // another process has committed
	stop     chan struct{}
	done     chan struct{}
}

// OpenSQLite opens the runs of a file, and makes it where it is missing. Unless it is opened
// beside, the file belongs to this process until Close, and runs whose owner has ended are due.
func OpenSQLite(ctx context.Context, o SQLiteOptions) (*Store, error) {
	path, err := filepath.Abs(o.Path)
	if err := errors.Join(err, now()); err != nil {
		return nil, err
	}
	f := &file{path: path, look: cmp.Or(o.Look, time.Second), requests: make(chan *request), foreign: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	f.words = strings.NewReplacer("{int}", "INTEGER", "{blob}", "BLOB", "{norowid}", " WITHOUT ROWID", "{sqlite}", "", "{lock}", "", "{now}", "vmcp_now()")
	if o.Beside {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: %w", runs.ErrUnavailable, err)
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
	go f.write1()
	s := newStore(o.Options, f)
	if o.Beside {
		return s, nil
	}
	// Nobody else has the lock, so nobody else has a run.
	if err := f.write(ctx, func(t tx) error {
		_, err := t.exec(ctx, `UPDATE @runs SET owner = '', lease = 0, wake = {now} WHERE state = 'running'`)
		return err
	}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// keyBeside reads the key of a file that has none in the configuration, or makes one.
func keyBeside(path string, create bool) (*seal.Ring, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		secret := make([]byte, 32)
		rand.Read(secret)
		text = []byte(base64.StdEncoding.EncodeToString(secret) + "\n")
		err = writeNew(path, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the key of the runs: %w", runs.ErrUnavailable, err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != 32 {
		return nil, fmt.Errorf("%w: %s does not hold a key: want 32 bytes in base64", runs.ErrUnavailable, path)
	}
	return seal.New([]seal.Key{{ID: "file", Secret: secret}})
}

// writeNew writes a file that nobody else can read and that is whole or not there.
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

// open opens the connections and looks whether the file is whole.
func (f *file) open(ctx context.Context, o SQLiteOptions) (err error) {
	defer guard(f.path, &err)
	made, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600) // what SQLite makes beside it gets the same mode
	if err != nil {
		return fmt.Errorf("%w: %w", runs.ErrUnavailable, err)
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

// dsn is what the driver takes for a file, whatever characters its name has.
func dsn(path string, pragmas []string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	v := url.Values{"_pragma": pragmas}
	return u.String() + "?" + v.Encode()
}

// thoroughly is up to which size a file is checked with its indexes at every start.
const thoroughly = 256 << 20

// whole looks whether the file is damaged.
func (f *file) whole(ctx context.Context) error {
	check := "integrity_check"
	if info, err := os.Stat(f.path); err == nil && info.Size() > thoroughly {
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

// failure says which file did not do what, and why.
func (f *file) failure(what string, err error) error {
	if err == nil || errors.Is(err, errFenced) || errors.Is(err, errNoRow) {
		return err
	}
	var coded *sqlite.Error
	if errors.As(err, &coded) {
		switch coded.Code() & 0xff {
		case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
			return damagedFile(f.path, what+": "+err.Error())
		}
	}
	return fmt.Errorf("%w: %s: %s: %w", runs.ErrUnavailable, f.path, what, err)
}

// damage is the text of an error of a whole database that is not what was written. It is runs.ErrDamaged.
type damage string

func (d damage) Error() string { return string(d) }

// Is implements errors.Is.
func (d damage) Is(target error) bool { return target == runs.ErrDamaged }

// damagedFile says what is wrong with a file, and what can be done.
func damagedFile(path, what string) error {
	return damage(fmt.Sprintf("the database of runs %s is damaged: %s; it is left as it is: put a backup in its place and remove %s-wal, %s-shm and %s.lock, or move all four away to begin without its runs", path, what, path, path, path))
}

// guard makes an error of a panic of the driver, which a damaged file may cause.
func guard(path string, err *error) {
	if p := recover(); p != nil {
		*err = damagedFile(path, fmt.Sprintf("the driver of SQLite gave up: %v", p))
	}
}

// conn is what *sql.Conn and *sql.Tx have in common.
type conn interface {
	ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, sql string, args ...any) (*sql.Rows, error)
}

// preparer runs statements on the connection that writes, each parsed once.
type preparer struct {
	*sql.Conn
	ready map[string]*sql.Stmt
}

// mostPrepared bounds the statements that are kept: there are a few dozen.
const mostPrepared = 100

func (p *preparer) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	st := p.ready[text]
	if st == nil {
		if len(p.ready) >= mostPrepared {
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
				return damagedFile(t.f.path, err.Error()) // a value of another type than was written
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return t.f.failure("read", rows.Err())
}

func (f *file) read(ctx context.Context, do func(tx) error) (err error) {
	defer guard(f.path, &err)
	t, err := f.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return f.failure("read", err)
	}
	defer t.Rollback()
	return do(f.tx(t))
}

func (f *file) announce() stmt { return stmt{} } // others see data_version

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
