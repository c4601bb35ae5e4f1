package sqlstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The SQL of this package is written once. @ in front of the name of a table is its schema, ? a
// parameter, and in braces stands what the two databases call differently.

// tx is a transaction.
type tx interface {
	// exec returns how many rows it has changed.
	exec(ctx context.Context, sql string, args ...any) (int64, error)
	// query calls row for every row, with what reads its columns.
	query(ctx context.Context, sql string, args []any, row func(scan func(dest ...any) error) error) error
}

// stmt is a statement with its arguments.
type stmt struct {
	sql  string
	args []any
}

// database is SQLite or PostgreSQL. Errors of its methods say what was tried on what, and are
// runs.ErrUnavailable or runs.ErrDamaged; those of the functions that it calls it returns as they are.
type database interface {
	// write runs f in a transaction that is durable when write returns. f may be run again.
	write(ctx context.Context, f func(tx) error) error
	// batch runs statements in one transaction that is durable when batch returns. The first has
	// to change a row, else errFenced is returned and nothing is changed. They may be run twice.
	batch(ctx context.Context, stmts []stmt) error
	// read runs f on one state of the database.
	read(ctx context.Context, f func(tx) error) error
	// announce is a statement that tells other processes that something has changed; "" where they see it.
	announce() stmt
	// watch calls changed whenever another process may have changed something, until ctx ends.
	watch(ctx context.Context, changed func())
	close() error
}

// dialect is how a database writes SQL.
type dialect struct {
	schema  string // in front of the names of tables
	dollars bool   // parameters are $1, $2, ...
	words   *strings.Replacer
	texts   sync.Map // as written -> for this database
}

// text is a statement for this database.
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
