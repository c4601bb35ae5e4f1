package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Limits of one result.
const (
	maxRows   = 1000
	maxResult = 1 << 20 // bytes of text
)

// Codes of refusals.
const (
	BadStatement = "bad_statement" // no statement that reads, for query
	BadArguments = "bad_arguments"
	Failed       = "sql_error" // with the server's SQLSTATE
	TimedOut     = "timeout"
	NotFound     = "not_found"
	Unreachable  = "unreachable" // the database does not answer
)

// readers are the first words of statements that read. The read-only transaction refuses all writes to the
// database; statements with other effects, such as COPY TO PROGRAM, have other first words.
var readers = []string{"SELECT", "VALUES", "TABLE", "WITH", "EXPLAIN", "SHOW"}

type queryIn struct {
	SQL     string `json:"sql" jsonschema:"one statement, $1, $2 ... for the values"`
	Params  []any  `json:"params,omitempty" jsonschema:"the values: null, boolean, number, string, or an object or array for json"`
	MaxRows int    `json:"maxRows,omitempty" jsonschema:"rows to return; default and limit: 1000"`
}

type queryOut struct {
	Columns   []string            `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows" jsonschema:"one array per row, in the order of columns"`
	Truncated bool                `json:"truncated" jsonschema:"whether there are more rows than returned"`
}

func (d *Database) query(ctx context.Context, in queryIn) (*queryOut, error) {
	if word := firstWord(in.SQL); !slices.Contains(readers, word) {
		return nil, toolserver.Errorf(BadStatement, "sql: want %s, have %q", strings.Join(readers, ", "), word)
	}
	params, err := values(in.Params)
	if err != nil {
		return nil, err
	}
	if in.MaxRows <= 0 || in.MaxRows > maxRows {
		in.MaxRows = maxRows
	}
	var out *queryOut
	err = d.within(ctx, pgx.ReadOnly, func(ctx context.Context, tx pgx.Tx) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		rows, err := tx.Query(ctx, in.SQL, params...)
		if err != nil {
			return err
		}
		out, err = collect(rows, in.MaxRows)
		if err == nil && out.Truncated {
			stop() // closes the connection: the server would send all the remaining rows
			rows.Close()
			return errEnough
		}
		rows.Close()
		return errors.Join(err, rows.Err())
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return out, nil
}

// errEnough ends the transaction of a query whose result is cut off.
var errEnough = errors.New("enough rows")

type executeIn struct {
	SQL    string `json:"sql" jsonschema:"one statement, $1, $2 ... for the values"`
	Params []any  `json:"params,omitempty" jsonschema:"the values: null, boolean, number, string, or an object or array for json"`
}

type executeOut struct {
	RowsAffected int64  `json:"rowsAffected"`
	Command      string `json:"command" jsonschema:"what the server did, such as INSERT 0 1"`
}

func (d *Database) execute(ctx context.Context, in executeIn) (*executeOut, error) {
	params, err := values(in.Params)
	if err != nil {
		return nil, err
	}
	out := &executeOut{}
	err = d.within(ctx, pgx.ReadWrite, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, in.SQL, params...) // not Exec, which accepts several statements where there are no parameters
		if err != nil {
			return err
		}
		rows.Close()
		out.RowsAffected, out.Command = rows.CommandTag().RowsAffected(), rows.CommandTag().String()
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// values returns the arguments for pgx: the parameters as text, whose types the statement determines, and the text format for results.
func values(params []any) ([]any, error) {
	out := []any{pgx.QueryResultFormats{pgx.TextFormatCode}} // an option of pgx, before the parameters
	for i, p := range params {
		switch v := p.(type) {
		case nil:
			out = append(out, nil)
		case string:
			if strings.ContainsRune(v, 0) {
				return nil, toolserver.Errorf(BadArguments, "params[%d]: a text of PostgreSQL has no NUL character", i)
			}
			out = append(out, v)
		default:
			text, err := json.Marshal(v)
			if err != nil {
				return nil, toolserver.Errorf(BadArguments, "params[%d]: %v", i, err)
			}
			out = append(out, string(text))
		}
	}
	return out, nil
}

// firstWord is the first word of a statement after white space, comments and parentheses.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v(")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = behindComment(sql)
		default:
			end := strings.IndexFunc(sql, func(c rune) bool { return (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' })
			if end < 0 {
				end = len(sql)
			}
			return strings.ToUpper(sql[:end])
		}
	}
}

// behindComment is the text after a comment; comments of PostgreSQL nest.
func behindComment(sql string) string {
	for depth, i := 0, 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return sql[i+1:]
			}
		}
	}
	return ""
}

// collect reads up to limit rows and up to maxResult bytes.
func collect(rows pgx.Rows, limit int) (*queryOut, error) {
	out := &queryOut{Columns: []string{}, Rows: [][]json.RawMessage{}}
	fields := rows.FieldDescriptions()
	for _, f := range fields {
		out.Columns = append(out.Columns, f.Name)
	}
	size := 0
	for rows.Next() {
		if len(out.Rows) == limit || size > maxResult {
			out.Truncated = true
			return out, nil
		}
		row := make([]json.RawMessage, len(fields))
		for i, raw := range rows.RawValues() {
			value, err := asJSON(raw, fields[i])
			if err != nil {
				return nil, err
			}
			row[i] = value
			size += len(value)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// asJSON is a value as JSON: numbers with all their digits, json unchanged, all others as
// PostgreSQL's text.
func asJSON(raw []byte, f pgconn.FieldDescription) (json.RawMessage, error) {
	if raw == nil {
		return json.RawMessage("null"), nil
	}
	if f.Format != pgx.TextFormatCode {
		return nil, toolserver.Errorf(Failed, "column %s came in another format", f.Name)
	}
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		return json.RawMessage(map[bool]string{true: "true", false: "false"}[string(raw) == "t"]), nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID, pgtype.JSONOID, pgtype.JSONBOID:
		if json.Valid(raw) { // NaN and Infinity are not
			return json.RawMessage(slices.Clone(raw)), nil
		}
	}
	return json.Marshal(string(raw))
}

// refusal converts the error of a statement into one for the caller.
func (d *Database) refusal(err error) error {
	var of *pgconn.PgError
	var known *toolserver.Error
	switch {
	case err == nil || errors.Is(err, errEnough) || errors.As(err, &known):
		return err
	case errors.As(err, &of) && strings.HasPrefix(of.Code, "57P"): // the server shuts down or starts
		return toolserver.Errorf(Unreachable, "the database does not answer")
	case errors.As(err, &of) && of.Code == "57014":
		return toolserver.Errorf(TimedOut, "sql: the statement did not end within %s", d.o.Timeout)
	case errors.As(err, &of):
		return toolserver.Errorf(Failed, "sql: %s (SQLSTATE %s)%s", of.Message, of.Code, position(of))
	case errors.Is(err, context.DeadlineExceeded):
		return toolserver.Errorf(TimedOut, "the database did not answer in time")
	case errors.Is(err, context.Canceled):
		return err
	}
	return toolserver.Errorf(Unreachable, "the database does not answer") // the cause names user and address
}

func position(of *pgconn.PgError) string {
	if of.Position == 0 {
		return ""
	}
	return fmt.Sprintf(" at character %d", of.Position)
}
