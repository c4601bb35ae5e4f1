package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

type tablesOut struct {
	Tables []table `json:"tables"`
}

type table struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	Type   string `json:"type" jsonschema:"table, view, materialized view or foreign table"`
}

// listed are the tables and views that the role may read, except the system catalogs.
const listed = `
SELECT n.nspname, c.relname,
  CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'table' END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2 LIMIT 10000`

func (d *Database) tables(ctx context.Context, _ struct{}) (*tablesOut, error) {
	out := &tablesOut{}
	err := d.within(ctx, pgx.ReadOnly, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listed)
		if err != nil {
			return err
		}
		out.Tables, err = pgx.AppendRows([]table{}, rows, pgx.RowToStructByPos[table])
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

type describeIn struct {
	Table string `json:"table" jsonschema:"name of a table or view, with its schema where it needs one: sales.items"`
}

type describeOut struct {
	Table   string   `json:"table"`
	Columns []column `json:"columns"`
}

type column struct {
	Name       string  `json:"name"`
	Type       string  `json:"type"`
	Nullable   bool    `json:"nullable"`
	Default    *string `json:"default,omitempty" jsonschema:"an SQL expression"`
	PrimaryKey bool    `json:"primaryKey"`
}

const columns = `
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

func (d *Database) describe(ctx context.Context, in describeIn) (*describeOut, error) {
	out := &describeOut{Table: in.Table}
	err := d.within(ctx, pgx.ReadOnly, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, columns, in.Table)
		if err != nil {
			return err
		}
		out.Columns, err = pgx.AppendRows([]column{}, rows, pgx.RowToStructByPos[column])
		if err == nil && len(out.Columns) == 0 {
			err = toolserver.Errorf(NotFound, "there is no table %q; list_tables lists them", in.Table)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
