package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// TablesOut are the tables and views of a database.
type TablesOut struct {
	Tables []Table `json:"tables"`
}

// Table is a table or a view.
type Table struct {
	Name string `json:"name"`
	Type string `json:"type" jsonschema:"table or view"`
}

// Tables lists the tables and views by name.
func (s *DB) Tables(ctx context.Context, _ struct{}) (*TablesOut, error) {
	out := &TablesOut{Tables: []Table{}}
	err := s.each(ctx, "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT 10000", nil, func(rows *sql.Rows) error {
		var t Table
		err := rows.Scan(&t.Name, &t.Type)
		out.Tables = append(out.Tables, t)
		return err
	})
	return out, err
}

// DescribeIn are the arguments of Describe.
type DescribeIn struct {
	Table string `json:"table" jsonschema:"name of a table or view"`
}

// DescribeOut has the columns of a table.
type DescribeOut struct {
	Table   string   `json:"table"`
	Columns []Column `json:"columns"`
}

// Column is a column of a table.
type Column struct {
	Name       string  `json:"name"`
	Type       string  `json:"type" jsonschema:"as it was declared; empty: anything"`
	Nullable   bool    `json:"nullable"`
	Default    *string `json:"default,omitempty" jsonschema:"an SQL expression"`
	PrimaryKey bool    `json:"primaryKey"`
}

// Describe lists the columns of a table or view. An unknown one is refused with the code not_found.
func (s *DB) Describe(ctx context.Context, in DescribeIn) (*DescribeOut, error) {
	out := &DescribeOut{Table: in.Table, Columns: []Column{}}
	err := s.each(ctx, `SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)`, []any{in.Table}, func(rows *sql.Rows) error {
		var c Column
		var notNull bool
		var key int
		err := rows.Scan(&c.Name, &c.Type, &notNull, &c.Default, &key)
		c.Nullable, c.PrimaryKey = !notNull && key == 0, key > 0
		out.Columns = append(out.Columns, c)
		return err
	})
	if err == nil && len(out.Columns) == 0 {
		err = toolserver.Errorf("not_found", "there is no table %q; list_tables lists them", in.Table)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// each calls f for every row of a trusted query.
func (s *DB) each(ctx context.Context, query string, params []any, f func(*sql.Rows) error) error {
	err := s.reading(ctx, func(ctx context.Context, c *sql.Conn) error {
		rows, err := c.QueryContext(ctx, query, params...)
		if err != nil {
			return err
		}
		for rows.Next() && err == nil {
			err = f(rows)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	if err != nil {
		return s.sqlError(err)
	}
	return nil
}
