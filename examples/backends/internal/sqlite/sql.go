package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Limits of one result.
const (
	maxRows   = 1000
	maxResult = 1 << 20 // bytes of text and blobs
)

// QueryIn are the arguments of a query.
type QueryIn struct {
	SQL     string `json:"sql" jsonschema:"one statement, ? for each value"`
	Params  []any  `json:"params,omitempty" jsonschema:"the values: null, boolean, number, string, or {\"base64\": ...} for a blob"`
	MaxRows int    `json:"maxRows,omitempty" jsonschema:"rows to return; default and limit: 1000"`
}

// QueryOut is the result of a query: integers with all their digits, {"base64": ...} for blobs.
type QueryOut struct {
	Columns   []string `json:"columns"`
	Rows      [][]any  `json:"rows" jsonschema:"one array per row, in the order of columns"`
	Truncated bool     `json:"truncated" jsonschema:"whether there are more rows than returned"`
}

// Query runs one reading statement. Refusals have the codes bad_statement, bad_arguments, sql_error and timeout.
func (s *DB) Query(ctx context.Context, in QueryIn) (*QueryOut, error) {
	params, err := prepare(in.SQL, in.Params, readers)
	if err != nil {
		return nil, err
	}
	if in.MaxRows <= 0 || in.MaxRows > maxRows {
		in.MaxRows = maxRows
	}
	var out *QueryOut
	err = s.reading(ctx, func(ctx context.Context, c *sql.Conn) error {
		rows, err := c.QueryContext(ctx, in.SQL, params...)
		if err != nil {
			return err
		}
		out, err = collect(rows, in.MaxRows)
		return errors.Join(err, rows.Close())
	})
	if err != nil {
		return nil, s.sqlError(err)
	}
	return out, nil
}

// ExecuteIn are the arguments of a statement that writes.
type ExecuteIn struct {
	SQL    string `json:"sql" jsonschema:"one statement, ? for each value"`
	Params []any  `json:"params,omitempty" jsonschema:"the values: null, boolean, number, string, or {\"base64\": ...} for a blob"`
}

// ExecuteOut is the result of a statement that writes.
type ExecuteOut struct {
	RowsAffected int64 `json:"rowsAffected"`
	LastInsertID int64 `json:"lastInsertId"`
}

// Execute runs one writing statement. Refusals have the codes of Query.
func (s *DB) Execute(ctx context.Context, in ExecuteIn) (*ExecuteOut, error) {
	params, err := prepare(in.SQL, in.Params, writers)
	if err != nil {
		return nil, err
	}
	if s.writer == nil {
		return nil, toolserver.Errorf("bad_statement", "sql: the database is open for reading only")
	}
	var out ExecuteOut
	err = s.writing(ctx, func(ctx context.Context, c *sql.Conn) error {
		r, err := c.ExecContext(ctx, in.SQL, params...)
		if err != nil {
			return err
		}
		out.RowsAffected, _ = r.RowsAffected() // the driver has both after the statement
		out.LastInsertID, _ = r.LastInsertId()
		return nil
	})
	if err != nil {
		return nil, s.sqlError(err)
	}
	return &out, nil
}

func (s *DB) sqlError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return toolserver.Errorf("timeout", "sql: the statement did not end within %s", s.timeout)
	}
	return toolserver.Errorf("sql_error", "sql: %v", err)
}

func prepare(src string, params []any, allowed []string) ([]any, error) {
	if err := checkSQL(src, allowed); err != nil {
		return nil, toolserver.Errorf("bad_statement", "sql: %v", err)
	}
	out := make([]any, len(params))
	for i, p := range params {
		v, err := param(p)
		if err != nil {
			return nil, toolserver.Errorf("bad_arguments", "params[%d]: %v", i, err)
		}
		out[i] = v
	}
	return out, nil
}

func param(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		return v.Float64()
	case map[string]any:
		if s, ok := v["base64"].(string); ok && len(v) == 1 {
			return base64.StdEncoding.DecodeString(s)
		}
	}
	return nil, fmt.Errorf(`want null, a boolean, a number, a string or {"base64": ...}, have %T`, v)
}

// collect reads up to limit rows and up to maxResult bytes.
func collect(rows *sql.Rows, limit int) (*QueryOut, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	out := &QueryOut{Columns: columns, Rows: [][]any{}}
	size := 0
	for rows.Next() {
		if len(out.Rows) == limit || size > maxResult {
			out.Truncated = true
			return out, nil
		}
		row, err := scan(rows, types)
		if err != nil {
			return nil, err
		}
		for _, v := range row {
			size += weight(v)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, rows.Err()
}

func scan(rows *sql.Rows, types []*sql.ColumnType) ([]any, error) {
	row := make([]any, len(types))
	into := make([]any, len(types))
	for i := range row {
		into[i] = &row[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	for i, v := range row {
		row[i] = value(v, types[i].DatabaseTypeName())
	}
	return row, nil
}

// value converts a value of the driver for JSON. The driver converts the text of columns
// declared as dates into times; value converts them back.
func value(v any, declared string) any {
	switch v := v.(type) {
	case []byte:
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(v)}
	case time.Time:
		if declared == "DATE" {
			return v.Format(time.DateOnly)
		}
		return v.Format("2006-01-02 15:04:05.999999999")
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v)
		}
	}
	return v
}

func weight(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case map[string]string:
		return len(v["base64"])
	}
	return 8
}
