package sqlstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The SQL of this package is written once for both databases: @ before the name of a table is replaced by
// its schema, ? is a parameter, and words in braces are replaced by those of the database.

// tx is a transaction.
type tx interface {
	// exec returns how many rows it has changed.
	exec(ctx context.Context, sql string, args ...any) (int64, error)
	// query calls row for every row, with a function that reads its columns.
	query(ctx context.Context, sql string, args []any, row func(scan func(dest ...any) error) error) error
}

// snapshot is a transaction that only reads, and whose statements all see the database in one state. In PostgreSQL each
// statement of a transaction that writes sees a state of its own.
type snapshot struct{ tx }

// stmt is a statement with its arguments.
type stmt struct {
	sql  string
	args []any
}

// database is SQLite or PostgreSQL. Errors of its methods name the operation and the database, and are
// durable.ErrUnavailable or durable.ErrDamaged; errors of the functions that are passed in are returned unchanged.
type database interface {
	// write runs f in a transaction that is durable when write returns. f may be run again.
	write(ctx context.Context, f func(tx) error) error
	// batch runs statements in one transaction that is durable when batch returns. If the first one
	// changes no row, nothing is changed and batch returns errFenced. They may be run twice.
	batch(ctx context.Context, stmts []stmt) error
	// read runs f on a snapshot of the database; f may be run again.
	read(ctx context.Context, f func(snapshot) error) error
	// readOne is read for a function with one statement, which needs no transaction.
	readOne(ctx context.Context, f func(snapshot) error) error
	// announce is a statement that notifies other processes of a change; "" where they poll for changes.
	announce() stmt
	// watch calls changed whenever another process may have changed the database, until ctx ends.
	watch(ctx context.Context, changed func())
	// goesBack reports whether commits may vanish while this process lives: in a crash of the database's machine, or when a
	// standby takes over.
	goesBack() bool
	close() error
}

// dialect translates the SQL of this package into that of a database.
type dialect struct {
	schema  string // in front of the names of tables
	dollars bool   // parameters are $1, $2, ...
	words   *strings.Replacer
	texts   sync.Map // SQL of this package -> SQL of the database
}

// text translates a statement.
func (d *dialect) text(sql string) string {
	if t, ok := d.texts.Load(sql); ok {
		return t.(string)
	}
	t := strings.ReplaceAll(d.words.Replace(sql), "@", d.schema)
	if d.dollars {
		var b strings.Builder
		n := 0
		for _, c := range t {
			if c != '?' {
				b.WriteRune(c)
				continue
			}
			n++
			b.WriteString("$" + strconv.Itoa(n))
		}
		t = b.String()
	}
	d.texts.Store(sql, t)
	return t
}

// Times are stored as microseconds since 1970; 0 is no time.

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n)
}
